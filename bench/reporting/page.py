"""The page: one file that needs nothing beside it but linked sounds, and no network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from voxgate.bench.reporting.tables import Section

FOLDER = Path(__file__).parent


def page(
    title: str,
    remarks: Sequence[str],
    warnings: Sequence[str],
    sections: Sequence[Section],
    legend: Sequence[tuple[str, str]],
    items: Mapping[str, Any],
    items_text: str,
    footer: str,
) -> str:
    """HTML. Every text is escaped; plots and the legend's marks are drawings made here. `items`: as `item_list` gives them.

    The page allows its own script alone (by hash), no network, and sounds only from itself and from files.
    """
    script = (FOLDER / "page.js").read_text(encoding="utf-8")
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        title=title,
        remarks=remarks,
        warnings=warnings,
        sections=[
            {
                **{name: getattr(section, name) for name in ("id", "title", "tables")},
                "plots": [(caption, Markup(svg)) for caption, svg in section.plots],
            }
            for section in sections
        ],
        legend=[(name, Markup(mark)) for name, mark in legend],
        has_sound=any(item["sound"] for item in items["items"]),
        data=Markup(_for_script(items)),
        items_text=items_text,
        footer=footer,
        style=Markup((FOLDER / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=Markup(base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")),
    )


def _for_script(value: Mapping[str, Any]) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
