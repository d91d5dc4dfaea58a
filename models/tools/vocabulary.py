"""Phrases of a tools file that a recogniser may be biased towards."""

from __future__ import annotations

from voxgate.models.tools.schema import ToolSet
from voxgate.models.tools.template import Literal, expansions, parse_template


def vocabulary(tools: ToolSet, most_per_example: int = 8) -> list[str]:
    """Phrases that a recogniser may be biased towards: enum values, and the literal stretches of the examples.

    An example expands into at most `most_per_example` ways of writing it without brackets; each way is cut at its slots,
    so
    that "(text|message) {recipient} that {body}" gives "text", "message" and "that" no more than once each.
    """
    found: dict[str, None] = {}
    for tool in tools:
        for schema in tool.properties.values():
            for value in schema.get("enum", ()):
                if isinstance(value, str) and value.strip():
                    found[" ".join(value.split())] = None
        for example in tool.examples:
            for way in expansions(parse_template(example), most_per_example):
                words: list[str] = []
                for part in (*way, None):
                    if isinstance(part, Literal):
                        words.append(part.word)
                    elif words:
                        found[" ".join(words)] = None
                        words = []
    return list(found)
