"""The written sources of the corpus: word lists, verb phrases and templates, read from the TOML files beside it."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from voxgate.bench.corpus import FOLDER
from voxgate.models.tools.schema import Tool

SOURCES = FOLDER / "sources"
BRACE = re.compile(r"\{([a-z_]+2?)\}")
FORMS = ("base", "ger", "past", "part")


@dataclass(frozen=True, slots=True)
class Word:
    """Words of a list, and the values they give: `words` as spoken, `value` canonical, `also` a second parameter's."""

    words: str
    value: str
    also: str = ""
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Phrase:
    """A verb phrase of a tool, or a whole request where `forms` is empty; braces stand for words."""

    name: str
    forms: tuple[str, ...]
    rest: str
    group: str = ""
    register: str = "plain"

    @property
    def braces(self) -> list[str]:
        return BRACE.findall(self.rest)

    @property
    def direct_only(self) -> bool:
        return len(self.forms) < len(FORMS)

    def said(self, form: str) -> str:
        return f"{self.forms[FORMS.index(form)]} {self.rest}" if self.forms else self.rest


@dataclass(frozen=True, slots=True)
class Template:
    """A frame around a phrase, or a line with words of its own; `tools` limits it to some tools."""

    name: str
    text: str
    group: str
    register: str
    tools: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Request:
    """What a tool is asked: the words in the braces and the parameters that they give."""

    tool: str
    filled: Mapping[str, str]
    params: Mapping[str, Any]


@dataclass(slots=True)
class Sources:
    lists: dict[str, list[Word]]
    also: dict[str, str]
    slots: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    phrases: dict[str, list[Phrase]] = field(default_factory=dict)
    whole: dict[str, list[Phrase]] = field(default_factory=dict)
    frames: dict[str, list[Template]] = field(default_factory=dict)


def read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads((SOURCES / f"{name}.toml").read_text(encoding="utf-8"))


def rows(text: str) -> list[str]:
    return [row.strip() for row in text.splitlines() if row.strip()]


def read_sources() -> Sources:
    """Word lists, verb phrases and frames."""
    lists, also = {}, {}
    for name, table in read_toml("slots").items():
        lists[name] = [_word(row, table) for row in rows(table["words"])]
        also[name] = table.get("also", "")
    found = Sources(lists, also)
    for tool, table in read_toml("requests").items():
        found.slots[tool] = {brace: (param, words) for brace, (param, words) in table["slots"].items()}
        found.phrases[tool] = [
            _phrase(f"{tool}-phrase-{n:02d}", row) for n, row in enumerate(rows(table["phrases"]), 1)
        ]
        found.whole[tool] = [
            Phrase(f"{tool}-{part['group']}-{n:02d}", (), row, part["group"], part["register"])
            for part in table["whole"]
            for n, row in enumerate(rows(part["lines"]), 1)
        ]
    for kind, groups in read_toml("frames").items():
        found.frames[kind] = read_templates(kind, groups)
    return found


def read_templates(kind: str, groups: Sequence[Mapping[str, Any]]) -> list[Template]:
    return [
        Template(
            f"{kind}-{part['group']}-{n:02d}", row, part["group"], part["register"], frozenset(part.get("tools", ()))
        )
        for part in groups
        for n, row in enumerate(rows(part["lines"]), 1)
    ]


def _word(row: str, table: Mapping[str, Any]) -> Word:
    words, *tags = (part.strip() for part in row.split("#"))
    said, _, value = (part.strip() for part in words.partition("="))
    value = value or said
    also = ""
    if table.get("also"):
        value, _, also = value.partition(" ")
    head, _, tail = value.partition(" ")
    if tail and head in str(table.get("strip", "")).split():
        value = tail
    return Word(said, value, also, frozenset(tags) | ({table["tag"]} if "tag" in table else frozenset()))


def _phrase(name: str, row: str) -> Phrase:
    """ "text|texting|texted {recipient} ..."; the forms may be of several words, "!" marks a phrase for requests alone."""
    if row.startswith("!"):
        verb, _, rest = row[1:].partition(" ")
        return Phrase(name, (verb,), rest)
    parts = row.split("|")
    words = len(parts[0].split())
    last = parts[-1].split()
    # The last form is as long as the plain one: "video call|video calling|video called {contact}".
    forms = [*parts[:-1], " ".join(last[:words])]
    return Phrase(name, (*forms, forms[-1]) if len(forms) == 3 else tuple(forms), " ".join(last[words:]))


def draw_request(
    sources: Sources, tool: Tool, braces: Sequence[str], rng: random.Random, given: Mapping[str, Word] | None = None
) -> Request:
    """Random words for the braces of a phrase whose tags go together; `given` words stand fast."""
    slots = sources.slots[tool.name]
    while True:
        chosen: dict[str, Word] = {}
        for brace in braces:
            known = brace.removeprefix("other_")
            listed = slots[known][1] if known in slots else known
            chosen[brace] = (given or {}).get(brace) or rng.choice(sources.lists[listed])
        tagged = [word.tags for word in chosen.values() if word.tags]
        others = [brace for brace in chosen if brace.startswith("other_")]
        if any(not one & two for one in tagged for two in tagged):
            continue
        if any(
            chosen[brace].value == chosen.get(brace[6:], chosen[brace]).value for brace in others if brace[6:] in chosen
        ):
            continue
        break
    params: dict[str, Any] = {}
    for brace, word in chosen.items():
        if brace in slots:
            param, listed = slots[brace]
            params[param] = typed(tool, param, word.value)
            if word.also:
                params[sources.also[listed]] = word.also
    ordered = {name: params[name] for name in tool.properties if name in params}
    return Request(tool.name, {brace: word.words for brace, word in chosen.items()}, ordered)


def typed(tool: Tool, param: str, value: str) -> Any:
    """A value as its parameter's type wants it."""
    if tool.properties[param].get("type") not in {"number", "integer"}:
        return value
    return float(value) if "." in value else int(value)


def fill(text: str, words: Mapping[str, str]) -> str:
    return BRACE.sub(lambda match: words[match[1]], text)


def sentence(text: str) -> str:
    """A capital at the beginning of each sentence, and a mark at the end."""
    text = " ".join(text.split())
    if text[-1] not in ".?!":
        text += "."
    return re.sub(r"(^|[.?!] )([a-z])", lambda match: match[1] + match[2].upper(), text)
