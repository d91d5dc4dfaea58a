"""Composes the corpus from its written sources: `python -m voxgate.bench.corpus_compose` writes the files of bench/scripts.

The same sources and seed give the same lines. Held-out frames meet held-out verb phrases only, so that the wording of a
held-out line is new throughout; a text too like one of another part of the split is drawn again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from voxgate.bench import corpus
from voxgate.bench.corpus import CONFIGURATIONS, FOLDER, FRAMES, SEED, SEEDS, TOOL_SHARE, Line, Utterance, core_of
from voxgate.bench.corpus_composer import Composer, asking, fits, framed, saying
from voxgate.bench.corpus_sources import (
    BRACE,
    Request,
    Template,
    draw_request,
    fill,
    read_sources,
    rows,
    sentence,
    typed,
)
from voxgate.models.tools.schema import Tool, load_tools

DIRECT_EACH, CONTEXT_EACH, TALK_EACH, PAIRS_EACH = 240, 56, 20, 90
"""Lines of a tool: direct requests, contexts, talk to oneself of one frame; and side-talk pairs of one configuration."""
QUESTIONS, NEW_QUESTIONS, BYSTANDERS = 460, 137, 760
"""Lines in all; `NEW_QUESTIONS` of the questions are of held-out templates, of the bystanders whatever their templates give."""
HELD_SHARE, NEW_TOOL_SHARE = 0.35, 0.5
"""Share of lines made of held-out templates; of a held-out tool's lines, which are all tests, half, so that there is enough
where everything is new."""


def _held_share(composer: Composer, tool: Tool) -> float:
    return NEW_TOOL_SHARE if tool.name in composer.splits.tools else HELD_SHARE


def direct_lines(composer: Composer) -> None:
    for tool in composer.tools:
        for held in (True, False):
            count = round(DIRECT_EACH * _held_share(composer, tool))
            count = count if held else DIRECT_EACH - count

            def attempt(tool: Tool = tool, held: bool = held) -> bool:
                said, drawn = composer.request(tool, held)
                return composer.keep("direct", None, core_of(tool.name, drawn.params), [said], f"direct-{tool.name}")

            composer.until(count, f"direct {tool.name}", attempt)


def selftalk_lines(composer: Composer) -> None:
    for frame in FRAMES:
        for tool in composer.tools:
            for held in (True, False):
                count = round(TALK_EACH * _held_share(composer, tool))
                count = count if held else TALK_EACH - count

                def attempt(tool: Tool = tool, held: bool = held, frame: str = frame) -> bool:
                    template = composer.template(frame, composer.sources.frames[frame], held, tool.name)
                    phrase = composer.phrase(tool.name, held, lambda one: not one.direct_only and fits(template, one))
                    if phrase is None:
                        return False
                    said, drawn = composer.request(tool, held, phrase)
                    text = framed(template.text, phrase, drawn)
                    talk = Utterance(
                        "self",
                        text,
                        "mute",
                        tool.name,
                        drawn.params,
                        template.register,
                        template.group,
                        phrase.name,
                    )
                    return composer.keep(
                        "selftalk", frame, core_of(tool.name, drawn.params), [talk, said], f"selftalk-{frame}"
                    )

                composer.until(count, f"{frame} {tool.name}", attempt)


def context_lines(composer: Composer) -> None:
    tails = rows(composer.contexts["tails"]["lines"])
    for tool in composer.tools:
        for number, row in enumerate(rows(composer.contexts[tool.name][SEEDS]), 1):
            _seed(composer, tool, number, row)
        shapes = {shape: rows(text) for shape, text in composer.contexts[tool.name].items() if shape != SEEDS}
        templates = [
            Template(f"context-{tool.name}-{shape}-{n:02d}", row, shape, "chatty")
            for shape, found in shapes.items()
            for n, row in enumerate(found, 1)
        ]
        for held in (True, False):
            seeds = len(rows(composer.contexts[tool.name][SEEDS]))
            count = round(CONTEXT_EACH * _held_share(composer, tool))
            count = count if held else CONTEXT_EACH - count - seeds

            def attempt(tool: Tool = tool, held: bool = held, templates: list[Template] = templates) -> bool:
                template = composer.template("context", templates, held, tool.name)
                braces = set(BRACE.findall(template.text))
                phrase = composer.phrase(tool.name, held, lambda one: braces <= set(one.braces))
                if phrase is None:
                    return False
                drawn = draw_request(composer.sources, tool, phrase.braces, composer.rng)
                said, _ = composer.request(tool, held, phrase, drawn)
                text = sentence(fill(template.text, drawn.filled))
                if composer.used[template.name] > 1 or composer.rng.random() < 0.4:
                    text += " " + composer.rng.choice(tails)
                context = saying("context", text, template)
                return composer.keep(
                    "contexts", None, core_of(tool.name, drawn.params), [context, said], f"context-{tool.name}"
                )

            composer.until(count, f"contexts {tool.name}", attempt)


def _seed(composer: Composer, tool: Tool, number: int, row: str) -> None:
    context, asked, given = (part.strip() for part in row.split("=>"))
    pairs = dict(part.strip().split("=", 1) for part in given.split(";"))
    params = {name: typed(tool, name, pairs[name]) for name in tool.properties if name in pairs}
    request = Request(tool.name, {}, params)
    name = f"{tool.name}-{SEEDS}-{number:02d}"
    parts = [
        Utterance("context", sentence(context), "mute", None, {}, "chatty", SEEDS, name),
        asking(tool, request, sentence(asked), "plain", SEEDS, name),
    ]
    if not composer.keep("contexts", None, core_of(tool.name, request.params), parts, f"context-{tool.name}"):
        raise RuntimeError(f"{row}: a text of this case is there already")


def question_lines(composer: Composer) -> None:
    for held in (True, False):

        def attempt(held: bool = held) -> bool:
            said, core = composer.question(held)
            return composer.keep("questions", None, core, [said], "question")

        composer.until(NEW_QUESTIONS if held else QUESTIONS - NEW_QUESTIONS, "questions", attempt)


def bystander_lines(composer: Composer) -> None:
    """Every exchange once, then again with other words: of those only turns that are new."""
    slots, tables = composer.between
    fresh = list(tables["groups"])
    for template in fresh:
        _exchange(composer, template, slots)
    again = [one for one in fresh if BRACE.search(one.text)]

    def attempt() -> bool:
        return _exchange(composer, composer.rng.choice(again), slots) > 0

    while composer.numbers["between"] < BYSTANDERS:
        composer.until(1, "bystanders", attempt)


def _exchange(composer: Composer, template: Template, slots: Mapping[str, list[str]]) -> int:
    kept = 0
    for turn in composer.filled(template, slots).split(" / "):
        said = saying("between", sentence(turn), template)
        kept += composer.keep("bystanders", None, template.name, [said], "between")
    return kept


def side_pairs(composer: Composer) -> None:
    for configuration in CONFIGURATIONS:
        for held in (True, False):
            count = round(PAIRS_EACH * HELD_SHARE)
            count = count if held else PAIRS_EACH - count

            def attempt(configuration: str = configuration, held: bool = held) -> bool:
                return _pair(composer, configuration, held)

            composer.until(count, configuration, attempt)


def _pair(composer: Composer, configuration: str, held: bool) -> bool:
    order, ours, theirs = configuration.split(":")
    new = composer.rng.random() < TOOL_SHARE
    tools = [tool for tool in composer.tools if (tool.name in composer.splits.tools) is new]
    first = composer.least(tools, lambda one: f"side/{ours}/{theirs}/{one.name}")
    composer.used[f"side/{ours}/{theirs}/{first.name}"] += 1
    # Both sides speak of tools of the same part of the split, and seldom of the same tool.
    second = composer.rng.choice([one for one in tools if one.name != first.name])
    if ours == "tool":
        said, drawn = composer.request(first, held)
        core = core_of(first.name, drawn.params)
    else:
        said, core = composer.question(held)
    slots, tables = composer.person
    if theirs == "tool":
        template = composer.template("person:tool", tables["tool_like"], held, second.name)
        phrase = composer.phrase(second.name, held, lambda one: not one.direct_only and fits(template, one))
        if phrase is None:
            return False
        asked = draw_request(composer.sources, second, phrase.braces, composer.rng)
        words = {brace: composer.rng.choice(slots[brace]) for brace in BRACE.findall(template.text) if brace in slots}
        # Nobody is asked to text himself, and what both are asked falls into one part of the split.
        if set(words.values()) & set(asked.filled.values()):
            return False
        if composer.splits.side(core_of(second.name, asked.params)) != composer.splits.side(core):
            return False
        text = framed(template.text, phrase, asked, words)
        person = Utterance(
            "person", text, "mute", second.name, asked.params, template.register, template.group, phrase.name
        )
    else:
        template = composer.template("person:talk", tables["talk"], held)
        person = saying("person", sentence(composer.filled(template, slots)), template)
    parts = [said, person] if order == "assistant-first" else [person, said]
    return composer.keep("sidetalk", configuration, core, parts, "side")


def compose(seed: int = SEED) -> list[Line]:
    """All lines of the corpus, family by family. Raises RuntimeError where the sources are too few."""
    composer = Composer(read_sources(), load_tools(), seed)
    # Whole cases first: they stand as they are, and everything else keeps its distance from them.
    context_lines(composer)
    direct_lines(composer)
    selftalk_lines(composer)
    side_pairs(composer)
    question_lines(composer)
    bystander_lines(composer)
    return sorted(composer.lines, key=lambda line: corpus.FAMILIES.index(line.family))


def write(lines: list[Line], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for family in corpus.FAMILIES:
        body = "".join(corpus.to_json(line) + "\n" for line in lines if line.family == family)
        (folder / f"{family}.jsonl").write_text(body, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m voxgate.bench.corpus_compose", description="Compose the corpus.")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder for the files (the corpus's own)")
    options = parser.parse_args()
    lines = compose()
    write(lines, options.out)
    print(f"{len(lines)} lines in {options.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
