"""The same tables as Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from voxgate.bench.reporting.tables import Section, Table


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    one_line = " ".join(text.split())
    return re.sub(r"([\\|*_`\[\]~#])", r"\\\1", html.escape(one_line, quote=False))


def table_text(table: Table) -> str:
    """Groups stand in a column of their own, where there are any."""
    grouped = any(line.group for line in table.lines)
    head = [table.head, *(["Where"] if grouped else []), *table.columns]
    rows = [
        [line.head, *([line.group] if grouped else []), *(cell.plain for cell in line.cells)]
        for _, lines in table.groups
        for line in lines
    ]
    return "\n".join((_row(head), "|---" * len(head) + "|", *map(_row, rows)))


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(escaped, cells)) + " |"


def page_text(title: str, remarks: Sequence[str], warnings: Sequence[str], sections: Sequence[Section]) -> str:
    parts = [f"# {escaped(title)}", *map(escaped, remarks), *(f"**{escaped(warning)}**" for warning in warnings)]
    for section in sections:
        parts.append(f"## {escaped(section.title)}")
        for table in section.tables:
            if table.title != section.title:
                parts.append(f"### {escaped(table.title)}")
            parts += [escaped(table.text), table_text(table), *map(escaped, table.notes)]
    return "\n\n".join(part for part in parts if part) + "\n"
