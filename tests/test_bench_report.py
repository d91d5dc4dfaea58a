"""The report of the benchmark: what it shows is what the records hold, on a page that is safe, whole and needs no network."""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import html
import io
import json
import re
import shutil
import tomllib
import urllib.parse
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests import report_material as material
from tests.conftest import Outcome

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from voxgate.bench.reporting import audio
from voxgate.bench.reporting.records import always_mute, read_run
from voxgate.bench.reporting.report import report
from voxgate.bench.reporting.scores import Scores
from voxgate.bench.reporting.tables import change_cell, share_cell

HOSTILE = '<script>alert("x")</script>|*_`$\\mathrm{'
SAID = '</script><img src="https://example.org/x.png" onerror="alert(1)"> & <b>door</b>'
VOID = {"meta", "link", "br", "img", "input", "hr", "path", "use"}


class Page(HTMLParser):
    """Tags must nest; attributes, tables and the texts of scripts are kept."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.scripts: list[str] = []
        self.table = ""
        self.cell: list[str] | None = None
        self.grouping = False
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        self.attributes += [(tag, name, value) for name, value in known.items()]
        if tag not in VOID or tag in {"path", "use"}:
            self.open.append(tag)
        if tag == "table" and "data-table" in known:
            self.table = known["data-table"]
            self.tables[self.table] = []
        if tag == "tr" and self.table:
            self.grouping = known.get("class") == "group"
            self.tables[self.table] += [] if self.grouping else [[]]
        if tag in {"td", "th"} and self.table and not self.grouping:
            self.cell = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag in {"td", "th"} and self.table and self.cell is not None:
            self.tables[self.table][-1].append("".join(self.cell).strip())
            self.cell = None
        if tag == "table":
            self.table = ""

    def handle_data(self, data: str) -> None:
        if self.cell is not None:
            self.cell.append(data)
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.scripts[0])
        return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A set with sounds, three records and the report of them."""
    root = tmp_path_factory.mktemp("report")
    items = material.items(3)
    items[1] = material.with_words(items[1], SAID)
    folder = material.write_set(root / "a set", items)
    records = [
        material.write_record(root / "gate", folder, items, "voxgate", material.gate(0.8)),
        material.write_record(root / "hostile", folder, items, HOSTILE, material.gate(0.6)),
        material.write_record(root / "mute", folder, items, "always-mute", material.never),
    ]
    report(records, root / "out", [folder], "embed")
    return {"root": root, "set": folder, "out": root / "out", **{path.name: path for path in records}}


@pytest.fixture(scope="module")
def page(made: dict[str, Path]) -> Page:
    return Page((made["out"] / "report.html").read_text(encoding="utf-8"))


def _rows(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (record / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]


def _simulated(record: Path) -> list[dict[str, Any]]:
    """Those of the first line of a system: what is heard through measured responses has lines of its own."""
    return [row for row in _rows(record) if not row["pair"].endswith("@measured")]


def _line(page: Page, table: str, system: str, number: int = 0) -> dict[str, str]:
    head, *rows = page.tables[table]
    found = [row for row in rows if row[0] == system]
    return dict(zip(head, found[number], strict=True))


def _counted(rows: list[dict[str, Any]], field: str) -> tuple[str, str]:
    hits = sum(bool(row[field]) for row in rows)
    return f"{100 * hits / len(rows):.1f}", f"{hits}/{len(rows)}"


def test_the_page_is_whole_and_asks_for_nothing_outside(page: Page) -> None:
    policy = next(value for tag, name, value in page.attributes if tag == "meta" and value.startswith("default-src"))
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy and policy.startswith("default-src 'none'")
    assert len(page.scripts) == 2
    for tag, name, value in page.attributes:
        assert not name.startswith("on"), (tag, name)
        if name in {"src", "href", "xlink:href", "srcset", "action", "poster"}:
            assert value.startswith("#"), (tag, name, value)
        assert not re.search(r"url\((?!#)", value)
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(set(ids)) == len(ids)
    pointed = {value[1:] for _, name, value in page.attributes if name in {"href", "xlink:href"}}
    assert pointed <= set(ids)
    labelled = {value for _, name, value in page.attributes if name == "aria-labelledby"}
    assert labelled <= set(ids)


def test_hostile_names_and_words_stay_text(made: dict[str, Path], page: Page) -> None:
    text = (made["out"] / "report.html").read_text(encoding="utf-8")
    assert text.count("<script") == 2 and "<img" not in text and "<b>" not in text
    assert _line(page, "overview", HOSTILE)["System"] == HOSTILE
    assert HOSTILE in page.data["systems"]
    assert any(part[2] == SAID for item in page.data["items"] for part in item["said"])
    assert "<script>" not in (made["out"] / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("system", ["voxgate", HOSTILE, "always-mute"])
def test_tables_hold_what_the_predictions_count(made: dict[str, Path], page: Page, system: str) -> None:
    record = {"voxgate": made["gate"], HOSTILE: made["hostile"], "always-mute": made["mute"]}[system]
    rows = _simulated(record)
    line = _line(page, "overview", system)
    cue = [row for row in rows if row["cell"].count("/") == 2]
    heard = [row for row in rows if row["audio"]]
    acting = [row for row in heard if row["target_kind"] != "mute"]
    switch = [row for row in rows if row["variant"] == "switch"]
    for title, chosen, field in (
        ("Speaker switch: mute", switch, "mute"),
        ("same speaker: tool", [row for row in rows if row["variant"] == "single"], "action_right"),
        ("text only: tool", [row for row in rows if row["variant"] == "text-only"], "action_right"),
        ("Ordinary requests: falsely rejected", [row for row in rows if row["family"] == "request"], "false_rejection"),
        ("Eight cells: target action", cue, "action_right"),
        ("False execution", heard, "false_execution"),
        ("False rejection", acting, "false_rejection"),
    ):
        share, count = _counted(chosen, field)
        assert line[title].split()[0] == share and line[title].split()[2] == count, title
    for cell in {row["cell"] for row in cue}:
        mine = [row for row in cue if row["cell"] == cell]
        shown = next(value for name, value in _line(page, "cells", system).items() if name.startswith(cell))
        share, count = _counted(mine, "action_right")
        tool, mute = _counted(mine, "tool_acted")[0], _counted(mine, "mute")[0]
        assert shown.split()[0] == share and shown.endswith(f"{count} tool {tool} · mute {mute}")
    side = [row["side"] for row in rows if row["family"] == "side-talk"]
    labels = _line(page, "side-talk", system)
    for label in ("assistant", "bystander", "both", "neither"):
        assert labels[f"Acts serve: {label}"].split()[1] == f"{side.count(label)}/{len(side)}"


def test_shown_intervals_are_those_of_the_summary(made: dict[str, Path], page: Page) -> None:
    figures = json.loads((made["gate"] / "summary.json").read_text(encoding="utf-8"))["figures"]["arrays"]["mono"]
    expected = {
        ("switch", "Pair right"): figures["speaker_switch"]["pair_right"],
        ("self-talk", "Both right"): figures["self_talk"]["both_right"],
        ("side-talk", "Right in both orders"): figures["side_talk"]["right_in_both_orders"],
        ("arguments", "Arguments right where the name is"): figures["rates"]["arguments"],
        ("errors", "Mute where wanted"): figures["rates"]["mute_right"],
        ("questions", "Answer"): figures["questions"]["answer_recall"],
    }
    for (table, column), figure in expected.items():
        low, high = (f"{100 * figure[end]:.1f}" for end in ("low", "high"))
        assert _line(page, table, "voxgate")[column].startswith(f"{100 * figure['mean']:.1f} [{low}–{high}]"), table
    contrast = next(c for c in figures["contrasts"] if (c["from"], c["to"]) == ("same/near/0", "other/near/0"))
    shown = next(row for row in page.tables["contrasts"] if row[0] == "same/near/0 → other/near/0")[1]
    assert shown.startswith(f"{100 * contrast['tool']['mean']:+.1f}".replace("-", "−"))
    assert f"{contrast['tool']['count']} pairs" in shown


def test_the_first_table_sets_mutes_of_others_beside_obedience(made: dict[str, Path], page: Page) -> None:
    assert next(iter(page.tables)) == "glance"
    rows = [row for row in _simulated(made["gate"]) if row["audio"] and not row["cell"].endswith("at-mouth")]
    rows = [row for row in rows if row["family"] in ("speaker-switch", "request", "cue")]
    others = [row for row in rows if row["target_kind"] == "mute" and not row["truth"]["wearer"]]
    own = [row for row in rows if row["target_kind"] == "tool"]
    line = _line(page, "glance", "voxgate")
    for title, chosen, field in (("Mutes another person", others, "mute"), ("Obeys its wearer", own, "tool_right")):
        share, count = _counted(chosen, field)
        assert line[title].split()[0] == share and line[title].split()[2] == count
    means = [float(row[3]) for row in page.tables["glance"][1:]]
    assert means == sorted(means, reverse=True) and _line(page, "glance", "always-mute")["Mean of both"] == "50.0"


def test_measured_responses_have_lines_of_their_own(made: dict[str, Path], page: Page) -> None:
    """Pooled with simulated rooms they would be neither."""
    rows = [row for row in _rows(made["gate"]) if row["pair"].endswith("@measured")]
    share, count = _counted(rows, "mute")
    assert (
        _line(page, "overview", "voxgate", 1)["Eight cells: target action"].startswith(f"{share} [") and count == "2/3"
    )
    assert [row[0] for row in page.tables["errors"][1:]].count("voxgate") == 2
    text = (made["out"] / "report.md").read_text(encoding="utf-8")
    assert "mono/measured" in text
    found = read_run(made["gate"])
    assert [name for name, _ in found.blocks] == ["mono", "mono/measured"]
    assert len(found.of_array("mono")) == len(_simulated(made["gate"])) and len(found.of_array("mono/measured")) == 6
    found.summary["figures"]["arrays"].pop("mono/measured")  # as records before had it
    assert len(found.of_array("mono")) == len(_rows(made["gate"]))


def test_a_condition_is_shown_against_its_plain_cell(made: dict[str, Path], page: Page) -> None:
    figures = json.loads((made["gate"] / "summary.json").read_text(encoding="utf-8"))["figures"]
    found = figures["arrays"]["mono"]["contrasts"]
    head, *rows = page.tables["contrasts-conditions"]
    assert [row[0] for row in rows] == ["other/near/0", "other/near/0"]  # at the mouth, and through measured responses
    for row, to in zip(rows, ("other/near/0/at-mouth", "other/near/0/measured"), strict=True):
        (one,) = [each for each in found if (each["from"], each["to"]) == ("other/near/0", to)]
        tool, mute = (
            f"{100 * one[what]['mean']:+.1f}".replace("-", "−").replace("+0.0", "0.0") for what in ("tool", "mute")
        )
        shown = row[head.index("voxgate")]
        assert shown.startswith(f"{tool} [") and f"mute {mute} [" in shown and "3 pairs" in shown


def test_pairs_of_voices_within_an_engine_stand_apart(made: dict[str, Path], page: Page) -> None:
    rows = [row for row in _rows(made["gate"]) if row["variant"] == "switch"]
    lines = [dict(zip(page.tables["voices"][0], row, strict=True)) for row in page.tables["voices"][1:]]
    shown = [line["Switch: mute"] for line in lines if line["System"] == "voxgate"]
    for place, kind in enumerate(("within", "across")):
        share, count = _counted([row for row in rows if row["facts"]["engines"] == kind], "mute")
        assert shown[place].startswith(f"{share} [") and shown[place].endswith(count)
    assert "other/near/at-mouth: mute" in lines[0] and len(page.tables["voices-sources"]) == 1 + 2 * 2 * 3


def test_always_mute_is_right_in_three_quarters_of_the_cells(made: dict[str, Path], page: Page, tmp_path: Path) -> None:
    line = _line(page, "overview", "always-mute")
    assert (line["mean of cells"], line["balanced"], line["worst cell"].split()[0]) == ("75.0", "50.0", "0.0")
    run = always_mute(read_run(made["gate"]), 0)
    assert run.summary["figures"] == read_run(made["mute"]).summary["figures"]
    report([made["gate"]], tmp_path / "out", audio="none")
    alone = Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    assert _line(alone, "overview", "always-mute") == _line(page, "overview", "always-mute")


def _markdown_tables(text: str) -> Iterator[list[list[str]]]:
    for block in text.split("\n\n"):
        if block.startswith("| "):
            head, _, *rows = block.splitlines()
            yield [
                [html.unescape(re.sub(r"\\(.)", r"\1", cell)).strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                for line in (head, *rows)
            ]


def test_markdown_says_the_same_as_the_page(made: dict[str, Path], page: Page) -> None:
    tables = list(_markdown_tables((made["out"] / "report.md").read_text(encoding="utf-8")))
    assert len(tables) == len(page.tables) > 12
    for (name, shown), written in zip(page.tables.items(), tables, strict=True):
        if "Where" in written[0]:
            written = [row[:1] + row[2:] for row in written]
        assert written == shown, name


def test_published_figures_are_marked_as_such(page: Page) -> None:
    for row in page.tables["overview"]:
        assert ("(published)" in row[0]) == (row[0].split(" (")[0] not in ("System", "voxgate", HOSTILE, "always-mute"))
    best = _line(page, "overview", "best known, column by column (published)")
    assert (best["Speaker switch: mute"], best["mean of cells"], best["worst cell"]) == ("92.5", "66.9", "3.75")
    assert best["False execution"] == "–"


def test_the_list_holds_every_outcome_with_its_flaws(made: dict[str, Path], page: Page) -> None:
    data = page.data
    rows = _rows(made["gate"])
    assert len(data["outcomes"]) == 3 * len(rows) and len(data["items"]) == len(rows)
    for outcome, row in zip(data["outcomes"], rows, strict=False):
        assert data["items"][outcome[0]]["id"] == row["id"] and bool(outcome[3]) == row["action_right"]
        named = [name for place, name in enumerate(data["flaws"]) if outcome[4] >> place & 1]
        assert named == [name for name in data["flaws"] if row[name]]


def test_embedded_sounds_are_few_and_play(made: dict[str, Path], page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    sounds = [item["sound"]["src"] for item in page.data["items"] if item["sound"]]
    inside = [source for source in sounds if source.startswith("data:audio/")]
    assert len(sounds) == sum(row["audio"] is not None for row in _rows(made["gate"]))
    assert len(inside) == min(audio.MOST_EMBEDDED, len(sounds))
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(inside[0].split(",")[1])))
    assert abs(len(samples) / rate - material.SECONDS) < 0.05 and np.abs(samples).max() > 0.05
    monkeypatch.setattr("voxgate.bench.reporting.report.MOST_EMBEDDED", 4)
    report([made["gate"]], made["root"] / "few", [made["set"]], "embed")
    few = Page((made["root"] / "few" / "report.html").read_text(encoding="utf-8")).data
    linked = [i["sound"]["src"] for i in few["items"] if i["sound"] and not i["sound"]["src"].startswith("data:")]
    assert len(linked) == len(sounds) - 4
    assert all((made["root"] / "few" / urllib.parse.unquote(source)).is_file() for source in linked)
    assert all(not source.startswith("/") and "://" not in source for source in linked)


def test_the_recognisers_channel_is_what_plays(tmp_path: Path) -> None:
    items = [item for item in material.items(1, ("glasses-8",)) if item.family == "request"]
    folder = material.write_set(tmp_path / "set", items)
    from voxgate.device.arrays import built_in_arrays

    heard = built_in_arrays()["glasses-8"].recogniser
    samples = np.zeros((8_000, 8), np.float32)
    samples[:, heard] = 0.3 * np.sin(2 * np.pi * 440 * np.arange(8_000) / 16_000)
    soundfile.write(folder / str(items[0].audio), samples, 16_000)
    record = material.write_record(tmp_path / "run", folder, items, "voxgate", material.never)
    report([record], tmp_path / "out", [folder], "embed")
    (item,) = Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8")).data["items"]
    played, _ = soundfile.read(io.BytesIO(base64.b64decode(item["sound"]["src"].split(",")[1])))
    assert played.ndim == 1 and np.sqrt(np.mean(played**2)) > 0.15
    assert item["sound"]["note"] == f"channel {heard + 1} of 8"


def test_the_same_records_give_the_same_bytes(made: dict[str, Path], tmp_path: Path) -> None:
    for out in ("one", "other"):
        report([made["gate"], made["hostile"]], made["root"] / out, [made["set"]], "link")
    for name in ("report.html", "report.md"):
        assert (made["root"] / "one" / name).read_bytes() == (made["root"] / "other" / name).read_bytes()


def test_several_arrays_modes_and_item_counts_are_told_apart(tmp_path: Path) -> None:
    items = material.items(2, ("mono", "laptop-2"))
    folder = material.write_set(tmp_path / "set", items, synthetic=[], voices=[{"name": "a"}])
    records = [
        material.write_record(tmp_path / "one", folder, items, "voxgate", material.gate(0.9)),
        material.write_record(tmp_path / "two", folder, items[:-4], "voxgate", material.gate(0.9), mode="initiator"),
    ]
    report(records, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "two rest on other items" in text and "synthetic speech" not in text.splitlines()[0]
    assert "0 of 1 voices are synthesised" in text
    (overview, *_) = _markdown_tables(text)
    heads = {(row[0], row[1]) for row in overview[1:]}
    systems = ("voxgate, wearer", "voxgate, initiator", "always-mute")
    assert {(system, array) for system in systems for array in ("mono", "laptop-2")} <= heads


Breaking = Callable[[Path, Path], list[object]]


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def _other_set(record: Path, folder: Path) -> list[object]:
    _edit(folder / "items.jsonl", "line-w0", "line-w9")
    return [record, "--set", folder]


BAD: dict[str, tuple[Breaking, str]] = {
    "missing": (lambda record, folder: [record / "gone"], "settings.json"),
    "no-record": (lambda record, folder: [folder], "settings.json"),
    "twice": (lambda record, folder: [record, record], "twice"),
    "kind of sound": (lambda record, folder: [record, "--audio", "loud"], "embed, link, none"),
    "other set": (_other_set, "none of the records"),
    "no set": (lambda record, folder: [record, "--set", record], "no benchmark set"),
}


def _broken(name: str, old: str, new: str) -> Breaking:
    def change(record: Path, folder: Path) -> list[object]:
        _edit(record / name, old, new)
        return [record]

    return change


BAD |= {
    "line": (_broken("predictions.jsonl", '"family"', '"family'), "line 1"),
    "field": (_broken("predictions.jsonl", '"family"', '"kin"'), "family: missing"),
    "type": (_broken("predictions.jsonl", '"mute": ', '"mute": 1'), "line 1"),
    "nan": (_broken("predictions.jsonl", '"stray_acts": 0', '"stray_acts": NaN'), "NaN"),
    "score": (_broken("predictions.jsonl", '"wearer": 0', '"wearer": 7'), "no probability"),
    "changed": (_broken("predictions.jsonl", '"action_right": true', '"action_right": false'), "not that of"),
    "summary": (_broken("summary.json", "{", "["), "summary.json"),
    "figure": (_broken("summary.json", '"low"', '"lower"'), "without its interval"),
    "other benchmark": (_broken("settings.json", '"system"', '"benchmark2"'), "no record of a system"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_writes_nothing(
    name: str, made: dict[str, Path], tmp_path: Path, voxgate: Callable[..., Outcome]
) -> None:
    record, folder = tmp_path / "record", tmp_path / "set"
    shutil.copytree(made["gate"], record)
    shutil.copytree(made["set"], folder)
    change, said = BAD[name]
    outcome = voxgate("bench", "report", *change(record, folder), "--out", tmp_path / "out")
    assert outcome.status == 2 and outcome.out == ""
    assert outcome.err.count("\n") == 1 and said in outcome.err
    assert not (tmp_path / "out").exists()


def test_sounds_that_are_missing_or_outside_of_the_set_are_refused(
    made: dict[str, Path], tmp_path: Path, voxgate: Callable[..., Outcome]
) -> None:
    folder = tmp_path / "set"
    shutil.copytree(made["set"], folder)
    gone = next((folder / "audio").glob("*.wav"))
    gone.unlink()
    arguments = ("bench", "report", made["gate"], "--set", folder, "--out", tmp_path / "out")
    outcome = voxgate(*arguments)
    assert outcome.status == 2 and outcome.err.count("\n") == 1 and gone.name in outcome.err
    assert voxgate(*arguments, "--audio", "none").status == 0
    items = [material.elsewhere(item) for item in material.items(1) if item.family == "request"]
    bare = material.write_set(tmp_path / "bare", [])
    soundfile.write(tmp_path / "secret.wav", np.zeros(100), 16_000)
    material.write_items(bare, items)
    record = material.write_record(tmp_path / "run", bare, items, "voxgate", material.never)
    outcome = voxgate("bench", "report", record, "--set", bare, "--out", tmp_path / "other")
    assert outcome.status == 2 and "outside of the set" in outcome.err


def test_the_verb_names_its_files_and_a_file_is_no_folder(
    made: dict[str, Path], tmp_path: Path, voxgate: Callable[..., Outcome]
) -> None:
    outcome = voxgate("bench", "report", made["gate"], "--out", tmp_path / "out")
    assert outcome.status == 0
    assert [Path(line).is_file() for line in outcome.out.splitlines()] == [True, True]
    (tmp_path / "file").write_text("x", encoding="utf-8")
    outcome = voxgate("bench", "report", made["gate"], "--out", tmp_path / "file")
    assert outcome.status == 2 and "give a folder" in outcome.err


def test_unknown_scores_are_rejected_and_priors_are_equal() -> None:
    p = np.array([0.9, np.nan, 0.8, 0.2, 0.1, 0.1, 0.1])
    yes = np.array([True, True, True, False, False, False, True])
    scores = Scores("a", "", "near", p, yes)
    accepts, rejects = scores.det()
    assert rejects[0] == 0.25 and accepts[0] == 1.0 and (accepts[-1], rejects[-1]) == (0.0, 1.0)
    assert np.isclose(scores.weights()[yes[scores.known]].sum(), 0.5)
    lowest = scores.bins()[0]
    assert lowest[2] == 3 and np.isclose(lowest[1], (1 / 6) / (1 / 6 + 2 / 6))


def test_what_the_page_is_made_of_is_shipped() -> None:
    root = Path(__file__).resolve().parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert any(need.startswith("jinja2") for need in project["project"]["optional-dependencies"]["bench"])
    patterns = [*project["tool"]["setuptools"]["package-data"]["voxgate.bench.reporting"], "*.py", "py.typed"]
    files = [path.name for path in (root / "bench" / "reporting").iterdir() if path.is_file()]
    assert all(any(fnmatch.fnmatch(name, pattern) for pattern in patterns) for name in files)


def test_cells_say_what_they_rest_on() -> None:
    assert share_cell({"mean": 0.925, "low": 0.9, "high": 0.95, "count": 400}).plain == "92.5 [90.0–95.0] 370/400"
    assert share_cell({"mean": 2 / 3 + 0.01, "low": 0, "high": 1, "count": 3}).count == "of 3"
    assert share_cell(None).plain == "–"
    assert change_cell({"mean": -0.5, "low": -0.6, "high": 0.0, "count": 8}).plain == "−50.0 [−60.0 to 0.0] 8 pairs"


def test_a_large_set_is_listed_in_part_and_counted_whole(
    made: dict[str, Path], page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxgate.bench.reporting.report.MOST_OUTCOMES", 60)
    report([made["gate"], made["hostile"], made["mute"]], tmp_path / "out", [made["set"]])
    shown = Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    rows = {row["id"]: row for row in _rows(made["gate"])}
    ids = [item["id"] for item in shown.data["items"]]
    assert len(ids) == 20 and len(shown.data["outcomes"]) == 60
    assert {rows[id]["cell"] for id in ids} == {row["cell"] for row in rows.values()}
    assert shown.tables == page.tables
