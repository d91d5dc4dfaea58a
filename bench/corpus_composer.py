"""What composes lines of the corpus: templates and words chosen evenly, and lines kept apart across the split."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from voxgate.bench import corpus
from voxgate.bench.corpus import SEEDS, Line, Splits, Utterance, plain
from voxgate.bench.corpus_near import NearIndex
from voxgate.bench.corpus_sources import (
    BRACE,
    Phrase,
    Request,
    Sources,
    Template,
    draw_request,
    fill,
    read_templates,
    read_toml,
    sentence,
)
from voxgate.models.tools.schema import Tool, ToolSet

OPEN_ENDS = ("{body}", "{ask}", "{note}", "{when}", "{duration}", "{purpose}", "{visitor}")
MOST_TRIES = 4000


class Composer:
    """Lines so far, and the texts of each part of the split to keep new ones apart from."""

    def __init__(self, sources: Sources, tools: ToolSet, seed: int) -> None:
        self.sources, self.tools = sources, tools
        self.rng = random.Random(f"compose:{seed}")
        self.questions, self.between, self.person = (_tables(name) for name in ("questions", "bystanders", "sidetalk"))
        self.contexts = read_toml("contexts")
        self.splits = self._splits(seed)
        self.lines: list[Line] = []
        self.used: Counter[str] = Counter()
        self._texts: set[str] = set()
        self._cells: dict[str, NearIndex] = {}
        self.numbers: Counter[str] = Counter()

    def _splits(self, seed: int) -> Splits:
        families: dict[str, Iterable[str]] = {
            kind: {one.group for one in templates}
            for kind, templates in self.sources.frames.items()
            if kind != "direct"
        }
        whole = {phrase.group for phrases in self.sources.whole.values() for phrase in phrases}
        families["request"] = {one.group for one in self.sources.frames["direct"]} | whole
        families["question"] = {one.group for one in self.questions[1]["groups"]}
        families["between"] = {one.group for one in self.between[1]["groups"]}
        families["person:tool"] = {one.group for one in self.person[1]["tool_like"]}
        families["person:talk"] = {one.group for one in self.person[1]["talk"]}
        families["context"] = {shape for tool in self.sources.phrases for shape in self.contexts[tool]} - {SEEDS}
        wordings = {tool: [one.name for one in phrases] for tool, phrases in self.sources.phrases.items()}
        return corpus.choose(seed, families, wordings, wordings)

    # ------------------------------------------------------------------ choosing

    def least(self, options: list[Any], name: Callable[[Any], str]) -> Any:
        """One of the options used least so far."""
        fewest = min(self.used[name(one)] for one in options)
        return self.rng.choice([one for one in options if self.used[name(one)] == fewest])

    def kept(self, kind: str, templates: list[Template], held: bool, tool: str = "") -> list[Template]:
        families = self.splits.families[kind]
        return [
            one
            for one in templates
            if (one.group in families) is held and (not one.tools or not tool or tool in one.tools)
        ]

    def phrases(self, tool: str, held: bool) -> list[Phrase]:
        return [one for one in self.sources.phrases[tool] if (one.name in self.splits.wordings) is held]

    def template(self, kind: str, templates: list[Template], held: bool, tool: str = "") -> Template:
        options = self.kept(kind, templates, held, tool)
        groups = sorted({one.group for one in options})
        group = self.least(groups, lambda one: f"{kind}/{tool}/{one}")
        self.used[f"{kind}/{tool}/{group}"] += 1
        chosen: Template = self.least([one for one in options if one.group == group], lambda one: one.name)
        self.used[chosen.name] += 1
        return chosen

    def phrase(self, tool: str, held: bool, wanted: Callable[[Phrase], bool] = lambda _: True) -> Phrase | None:
        """A verb phrase of the tool, or None where none of them is wanted."""
        options = [one for one in self.phrases(tool, held) if wanted(one)]
        if not options:
            return None
        chosen: Phrase = self.least(options, lambda one: one.name)
        self.used[chosen.name] += 1
        return chosen

    # ------------------------------------------------------------------ keeping

    def keep(self, family: str, frame: str | None, core: str, parts: list[Utterance], prefix: str) -> bool:
        """Add a line unless one of its texts is there already or stands too near to another part of the split."""
        line = Line(f"{prefix}-{self.numbers[prefix] + 1:04d}", family, frame, core, tuple(parts))
        texts = [plain(part.text) for part in parts]
        if len(set(texts)) < len(texts) or any(text in self._texts for text in texts):
            return False
        mine = self.splits.cell(line)
        for cell, index in self._cells.items():
            if cell != mine and any(index.nearest(text) for text in texts):
                return False
        for text in texts:
            self._texts.add(text)
            self._cells.setdefault(mine, NearIndex()).add(text)
        self.numbers[prefix] += 1
        self.lines.append(line)
        return True

    def until(self, count: int, what: str, attempt: Callable[[], bool]) -> None:
        """Attempts until `count` are kept. Raises RuntimeError when the sources are too few."""
        kept = tries = 0
        while kept < count:
            kept += attempt()
            tries += 1
            if tries > MOST_TRIES + 40 * count:
                raise RuntimeError(f"{what}: {kept} of {count} lines after {tries} tries; write more templates")

    # ------------------------------------------------------------------ requests

    def request(
        self, tool: Tool, held: bool, phrase: Phrase | None = None, request: Request | None = None
    ) -> tuple[Utterance, Request]:
        """A direct request: of the phrase and request given, or drawn anew."""
        whole = [one for one in self.sources.whole[tool.name] if (one.group in self.splits.families["request"]) is held]
        frames = self.kept("request", self.sources.frames["direct"], held)
        if phrase is None:
            groups = {one.group for one in frames}
            share = len({one.group for one in whole}) / (len(groups) + len({one.group for one in whole}))
            if self.rng.random() < share:
                chosen: Phrase = self.least(whole, lambda one: one.name)
                self.used[chosen.name] += 1
                drawn = draw_request(self.sources, tool, chosen.braces, self.rng)
                text = sentence(fill(chosen.rest, drawn.filled))
                return asking(tool, drawn, text, chosen.register, chosen.group, chosen.name), drawn
            phrase = self.least(self.phrases(tool.name, held), lambda one: one.name)
            self.used[phrase.name] += 1
        drawn = request or draw_request(self.sources, tool, phrase.braces, self.rng)
        while True:
            frame = self.template("request", self.sources.frames["direct"], held)
            if fits(frame, phrase):
                break
        text = framed(frame.text, phrase, drawn)
        return asking(tool, drawn, text, frame.register, frame.group, phrase.name), drawn

    # ------------------------------------------------------------------ words without a tool

    def filled(self, template: Template, slots: Mapping[str, list[str]]) -> str:
        words: dict[str, str] = {}
        for brace in BRACE.findall(template.text):
            if brace in words:
                continue
            options = [one for one in slots[brace.removesuffix("2")] if one not in words.values()]
            words[brace] = self.rng.choice(options)
        return fill(template.text, words)

    def question(self, held: bool) -> tuple[Utterance, str]:
        slots, tables = self.questions
        template = self.template("question", tables["groups"], held)
        return saying("question", sentence(self.filled(template, slots)), template), template.name


def _tables(name: str) -> tuple[dict[str, list[str]], dict[str, list[Template]]]:
    table = read_toml(name)
    slots = {slot: words.split("|") for slot, words in table.pop("slots").items()}
    return slots, {kind: read_templates(f"{name}-{kind}", groups) for kind, groups in table.items()}


def fits(template: Template, phrase: Phrase) -> bool:
    """False where words go on right after a phrase with an open end (nobody could say where it ends), and where the phrase
    lacks the form."""
    if phrase.direct_only and set(BRACE.findall(template.text)) & {"ger", "past", "part"}:
        return False
    if not phrase.rest.endswith(OPEN_ENDS):
        return True
    tail = _after(template.text)
    return not tail or tail[0] in ",.?!"


def _after(text: str) -> str:
    found = [match for match in BRACE.finditer(text) if match[1] in {"base", "ger", "past", "part"}]
    return text[found[-1].end() :]


def framed(text: str, phrase: Phrase, request: Request, words: Mapping[str, str] | None = None) -> str:
    forms = {} if phrase.direct_only else {form: phrase.said(form) for form in ("ger", "past", "part")}
    said = {form: fill(one, request.filled) for form, one in {"base": phrase.said("base"), **forms}.items()}
    return sentence(fill(text, {**said, **(words or {})}))


def asking(tool: Tool, request: Request, text: str, register: str, group: str, wording: str) -> Utterance:
    return Utterance("request", text, "tool", tool.name, request.params, register, group, wording)


def saying(role: str, text: str, template: Template) -> Utterance:
    return Utterance(role, text, corpus.ROLES[role], None, {}, template.register, template.group, template.name)
