"""What an export found, for people: a section of the model card, and one page that needs nothing but itself."""

from __future__ import annotations

import html
import math
from pathlib import Path
from typing import Any

from voxgate.device.errors import InputError
from voxgate.models.runtime import write_json

HEADING = "## Export"


def write_report(folder: Path, report: dict[str, Any]) -> None:
    """Write `report.json` and `report.html` into the folder and bring the `## Export` section of its card up to date.

    Raises InputError when the folder cannot be written to.
    """
    try:
        write_json(folder / "report.json", report)
        (folder / "report.html").write_text(_page(report), encoding="utf-8")
        card = folder / "README.md"
        text = card.read_text(encoding="utf-8") if card.is_file() else f"# {report['model']}\n"
        card.write_text(_with_section(text, _section(report)), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}); name another folder with --out") from error


def limits_text(limits: dict[str, float]) -> str:
    """What an int8 graph has to keep to, in words."""
    return f"flips {100 * limits['flips']:.1f} % (mean of both), size {100 * limits['size']:.0f} %, never slower"


def too_few_trials(int8: dict[str, Any]) -> str | None:
    """One sentence where the decisions compared are too few to tell whether flips keep to their limit, else None.

    Of n independent decisions without a flip, up to 3 in n may flip all the same (95 %, the rule of three).
    """
    counted = next((row["flips"] for row in int8["variants"] if row["flips"] is not None), None)
    if counted is None:
        return None
    unseen = 1.5 / max(1, counted["yes_of"]) + 1.5 / max(1, counted["no_of"])
    if unseen <= int8["limits"]["flips"]:
        return None
    return (
        f"{counted['yes_of']} decisions that ought to be yes and {counted['no_of']} that ought to be no are too few to judge "
        f"{100 * int8['limits']['flips']:.1f} % flips: even without any, {100 * min(1.0, unseen):.1f} % may flip (95 %)."
    )


def _with_section(card: str, section: str) -> str:
    before, found, after = card.partition(f"\n{HEADING}\n")
    _, following, rest = after.partition("\n## ") if found else ("", "", "")
    return f"{before.rstrip()}\n\n{section}" + (f"\n## {rest}" if following else "")


def _section(report: dict[str, Any]) -> str:
    parity = report["parity"]
    lines = [
        HEADING,
        "",
        f"`onnx/model.onnx` differs from torch by at most {max(parity.values()):.1e} (batch x frames: {', '.join(parity)}).",
    ]
    int8 = report.get("int8")
    if int8 is None:
        return "\n".join([*lines, "int8 was not tried.", ""])
    processor = int8["processor"]
    vnni = "with VNNI" if processor["vnni"] else "without VNNI"
    lines += [
        f"Shipped: **{int8['shipped']}**, {int8['why']}",
        "",
        f"Decisions on {facts_text(int8['choosing'])}; milliseconds of one pass of {int8['speed']['frames']} frames on one "
        f"thread, taken by turns, {processor['model']} {vnni}. Limits: {limits_text(int8['limits'])}.",
        "",
        "| graph | MB | ms | time | flips, ought to be yes | ought to be no | mean | equal error rate, % | against it |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_line(row) for row in int8["variants"]),
    ]
    if warning := too_few_trials(int8):
        lines += ["", warning]
    if int8["testing"]:
        lines += [
            "",
            "On voices that chose nothing:",
            "",
            "| set | flips, ought to be yes | ought to be no | float | shipped |",
        ]
        lines += ["|---|---|---|---|---|", *(_test_line(name, row) for name, row in int8["testing"].items())]
    return "\n".join([*lines, ""])


def _line(row: dict[str, Any]) -> str:
    return "| " + " | ".join(_cells(row)) + " |"


def _cells(row: dict[str, Any]) -> list[str]:
    size, speed = f"{row['bytes'] / 1e6:.2f} ({100 * row['size_share']:.0f} %)", f"{row['milliseconds']:.2f}"
    if not row["milliseconds"]:
        return [row["name"], *["-"] * 7, "; ".join(row["against"])]
    return [row["name"], size, speed, f"{row['time_share']:.2f}", *_flip_cells(row["flips"]), _rates(row["figures"]),
            "; ".join(row["against"]) or "-"]  # fmt: skip


def _flip_cells(flips: dict[str, Any] | None) -> list[str]:
    if flips is None:
        return ["-", "-", "-"]
    return [
        f"{flips['yes']} of {flips['yes_of']}",
        f"{flips['no']} of {flips['no_of']}",
        f"{100 * flips['balanced']:.2f} %",
    ]


def _test_line(name: str, row: dict[str, Any]) -> str:
    counted = _flip_cells(row["flips"])[:2]
    rates = f"{_rates(row['float'])} | {_rates(row['int8'])}"
    return f"| {name}, {facts_text(row)} | {counted[0]} | {counted[1]} | {rates} |"


def facts_text(facts: dict[str, Any]) -> str:
    """Of how many speakers or devices and stretches trials are made."""
    return ", ".join(f"{facts[name]} {name}" for name in ("speakers", "devices", "stretches") if name in facts)


def _rates(figures: dict[str, dict[str, float]]) -> str:
    """The equal error rate of each kind of score, in per cent, and the cost of likelihood ratios."""
    parts = []
    for name, values in figures.items():
        cost = f" (Cllr {values['cllr_bits']:.3f})" if "cllr_bits" in values else ""
        parts.append(f"{name} {100 * values['eer']:.2f}{cost}")
    return ", ".join(parts)


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
:root { color-scheme: light dark }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
td, th { padding: .3rem .6rem; text-align: left; border-bottom: 1px solid #8886; vertical-align: top }
tr.ships td { background: #2a7d4633 }
svg text { font-size: 12px; fill: currentColor }
"""


def _page(report: dict[str, Any]) -> str:
    parity, int8 = report["parity"], report.get("int8")
    body = [
        f"<h1>{html.escape(report['model'])}</h1>",
        f"<p>Float graph against torch: at most {max(parity.values()):.1e}, at {len(parity)} batch sizes and lengths.</p>",
    ]
    if int8 is not None:
        body += [
            f"<p><strong>{html.escape(int8['shipped'])}</strong> ships: {html.escape(int8['why'])}</p>",
            _picture(int8),
        ]
        head = (
            "graph",
            "MB",
            "ms",
            "time",
            "flips, ought to be yes",
            "ought to be no",
            "mean",
            "equal error rate, %",
            "against it",
        )
        body.append("<table><tr>" + "".join(f"<th>{name}</th>" for name in head) + "</tr>")
        for row in int8["variants"]:
            mark = ' class="ships"' if row["name"] == int8["shipped"] else ""
            cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row))
            body.append(f"<tr{mark} title='{html.escape(row['what'], quote=True)}'>{cells}</tr>")
        body.append("</table><ul>")
        body += [
            f"<li>{html.escape(row['name'])}: {html.escape(row['what'])}. {html.escape(row['arithmetic'])}.</li>"
            for row in int8["variants"]
        ]
        body.append("</ul>")
    title = f"<title>{html.escape(report['model'])}: export</title>"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8">{title}<style>{_STYLE}</style>{"".join(body)}</html>\n'
    )


_WIDTH, _HEIGHT, _LEFT, _TOP = 640, 320, 60, 20


def _picture(int8: dict[str, Any]) -> str:
    """Share of time against flipped decisions (logarithmic), the limit drawn as a line."""
    rows = [row for row in int8["variants"] if row["flips"] is not None]
    least, most = 1e-4, 1.0

    def across(share: float) -> float:
        return _LEFT + (_WIDTH - 2 * _LEFT) * min(share, 1.3) / 1.3

    def down(flips: float) -> float:
        part = math.log(max(flips, least) / least) / math.log(most / least)
        return _HEIGHT - _TOP - (_HEIGHT - 2 * _TOP) * part

    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" width="100%" aria-label="time against flipped decisions">'
    ]
    for value in (1e-4, 1e-3, 1e-2, 1e-1, 1.0):
        parts.append(f'<text x="0" y="{down(value) + 4:.0f}">{100 * value:g} %</text>')
    limit = down(int8["limits"]["flips"])
    parts.append(
        f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{limit:.0f}" y2="{limit:.0f}" stroke="#b33" stroke-dasharray="4"/>'
        f'<text x="{_LEFT}" y="{_HEIGHT - 2}">share of the time of float: 0</text>'
        f'<text x="{across(1):.0f}" y="{_HEIGHT - 2}">1</text>'
    )
    label = (0.0, 0.0)
    for row in sorted(rows, key=lambda row: -row["flips"]["balanced"]):
        colour = "#2a7d46" if row["name"] == int8["shipped"] else "#888"
        x, y = across(row["time_share"]), down(row["flips"]["balanced"])
        beside = abs(x - label[0]) < 0.25 * _WIDTH
        label = (x, max(y + 4, label[1] + 13) if beside else y + 4)  # names of neighbours stand below one another
        parts.append(
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="5" fill="{colour}"/>'
            f'<text x="{x + 8:.0f}" y="{label[1]:.0f}">{html.escape(row["name"])}</text>'
        )
    return "".join([*parts, "</svg>"])
