"""The plan of `cues`: one command in cells that differ in one cue each, from the same once-synthesised speech.

A cell is `source/distance/gap`, a condition behind it where there is one. In the eight cells of {same, other} x {near, far} x
{0, 600 ms} the context is as far as the trigger; in the six with the condition `trigger-only-far` the wearer says it near. Only
the near wearer may act; where another convention calls a far wearer's words an act, `facts` says so (`target_by_source`). The
conditions on the eight cells: another person at the wearer's mouth, a bystander 0.5 to 0.8 m away, noise at 10 and at 5 dB,
both talking at once, a loudspeaker as the bystander. Scenes that a condition leaves as they are share one file.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from voxgate.bench import corpus
from voxgate.bench.corpus import Line, Utterance
from voxgate.bench.scenes import generator_for
from voxgate.bench.sets.cases import (
    GAP_SECONDS,
    Asked,
    Case,
    Part,
    Scene,
    draw_low_pass,
    draw_voices,
    pair_facts,
    quiet,
    target_of,
    text_id,
)
from voxgate.bench.sets.rooms import BYSTANDER, OTHER_FAR, OTHER_NEAR, WEARER, WEARER_FAR, RoomSpec
from voxgate.bench.sets.vgbench import Pools, balanced
from voxgate.bench.sets.voices import Voice
from voxgate.device.errors import InputError
from voxgate.models.tools.grammar import MUTE

COMMANDS = 80
EIGHT = tuple((source, where, gap) for source in ("same", "other") for where in ("near", "far") for gap in (0, 600))
SIX = (
    ("same", "near", 0), ("same", "near", 600), ("same", "far", 600),
    ("other", "near", 0), ("other", "near", 600), ("other", "far", 600),
)  # fmt: skip
TRIGGER_ONLY = "trigger-only-far"
PLAIN = "plain"
"""What the eight cells without a condition are asked for as; their names have none."""
CONDITIONS = (PLAIN, TRIGGER_ONLY, "at-mouth", "bystander", "noise-10", "noise-5", "both-talk", "loudspeaker")
BOTH_DB, BOTH_AFTER_SECONDS = (-10.0, 0.0), (0.1, 0.5)


@dataclass(frozen=True, slots=True)
class Command:
    """What is said in a case: a context and a request, each with the id of its text; `line` is where the request is from."""

    line: Line
    context: Utterance
    context_id: str
    request: Utterance
    request_id: str
    held: frozenset[str]


def plan(pools: Pools, count: int | None = None) -> list[Case]:
    """A case for every command. Voices and rooms are new ones where there are any. Raises InputError."""
    voices = tuple(voice for voice in pools.voices if voice.held)
    voices = voices if len(voices) > 1 else pools.voices
    rooms = tuple(room for room in pools.rooms if room.held) or pools.rooms
    talk = sorted((line for line in corpus.load_family("bystanders")), key=lambda line: line.id)
    cases = []
    for number, command in enumerate(commands(count or COMMANDS, pools.seed)[: pools.limit]):
        wearer, other = draw_voices(voices, number % 2 == 0, pools.seed, command.line.id, number)
        draw = generator_for(pools.seed, "cues", command.line.id, number)
        specs: list[RoomSpec] = [pool[int(draw.integers(len(pool)))] for pool in (rooms, pools.measured) if pool]
        held = command.held | ({"voices"} if wearer.held and other.held else set())
        aside = talk[int(draw.integers(len(talk)))]
        cell = _Cells(command, wearer, other, aside, pools.seed, number)
        cases.append(
            Case(
                f"cue-{number:04d}", command.line.id, wearer, tuple(specs), tuple(sorted(held)),
                tuple(cell.all(pools.conditions or CONDITIONS)),
            )
        )  # fmt: skip
    return cases


def commands(count: int, seed: int) -> list[Command]:
    """Commands that are kept for testing, as many of each tool as there are, those first that are new in most; when the
    contexts end, direct requests with a context of the same tool. Raises InputError for more than there are."""
    everything = corpus.load()
    splits = corpus.splits(everything)
    contexts, direct = ([line for line in everything if line.family == family] for family in ("contexts", "direct"))
    found = []
    for line in contexts:
        if held := splits.held(line):
            found.append(
                Command(line, line.utterances[0], text_id(line, 0), line.utterances[1], text_id(line, 1), held)
            )
    borrowed: dict[str, list[Command]] = {}
    for command in found:
        borrowed.setdefault(_tool(command.line), []).append(command)
    for number, line in enumerate(direct):
        own = splits.held(line)
        if own and (others := borrowed.get(_tool(line))):
            lent = others[number % len(others)]
            found.append(Command(line, lent.context, lent.context_id, line.utterances[0], text_id(line, 0), own))
    if count > len(found):
        raise InputError(f"--items {count}: the corpus keeps {len(found)} commands for testing; ask for fewer")
    by_line = {command.line.id: command for command in found}
    in_turn = [by_line[line.id] for line in balanced([one.line for one in found], len(found), seed, _tool)]
    of_tool: dict[str, list[Command]] = {}
    for command in sorted(in_turn, key=lambda one: (len(one.line.utterances) == 1, not splits.everything(one.line))):
        of_tool.setdefault(_tool(command.line), []).append(command)
    turns = itertools.zip_longest(*(of_tool[tool] for tool in sorted(of_tool)))
    return [command for turn in turns for command in turn if command is not None][:count]


def _tool(line: Line) -> str:
    return min(line.tools)


class _Cells:
    """The items of one command."""

    def __init__(self, command: Command, wearer: Voice, other: Voice, aside: Line, seed: int, number: int) -> None:
        self.command, self.wearer, self.other, self.aside = command, wearer, other, aside
        self.names = (seed, command.line.id, number)
        self.low_pass = draw_low_pass(*self.names) if number % 4 in (1, 2) else None
        self.snr_db = quiet(*self.names)

    def all(self, conditions: Collection[str]) -> Iterator[Asked]:
        for condition in CONDITIONS:
            if condition not in conditions:
                continue
            if condition == TRIGGER_ONLY:
                for cell in SIX:
                    yield self._asked("six", cell, condition, self._parts(cell, False, ""))
            else:
                for cell in EIGHT:
                    name = "" if condition == PLAIN else condition
                    yield self._asked("eight", cell, name, self._eight(cell, name))

    def _asked(self, variant: str, cell: tuple[str, str, int], condition: str, parts: tuple[Part, ...]) -> Asked:
        source, where, gap = cell
        name = f"{source}/{where}/{gap}" + (f"/{condition}" if condition else "")
        request = self.command.request
        snr_db = {"noise-10": 10.0, "noise-5": 5.0}.get(condition, self.snr_db)
        acts = target_of(request)
        facts = pair_facts(self.wearer, self.other) | {"condition": condition, "gap_ms": gap}
        facts["target_by_source"] = acts if source == "same" else MUTE
        facts["context_from"] = self.command.context_id
        if condition == "both-talk":
            facts["aside_db"] = parts[-1].level_db
        return Asked(
            "cue", variant, name, acts if (source, where) == ("same", "near") else MUTE, request.tool, dict(request.params),
            Scene(parts, snr_db), 1, facts=facts, needs=BYSTANDER if condition == "bystander" else None,
        )  # fmt: skip

    def _eight(self, cell: tuple[str, str, int], condition: str) -> tuple[Part, ...]:
        parts = self._parts(cell, True, condition)
        return (*parts, self._aside(cell)) if condition == "both-talk" else parts

    def _parts(self, cell: tuple[str, str, int], whole_scene: bool, condition: str) -> tuple[Part, ...]:
        source, where, gap = cell
        far, same = where == "far", source == "same"
        command = self.command
        context = Part(
            command.context_id, command.context.text, "context", "wearer", self.wearer,
            WEARER_FAR if far and whole_scene else WEARER, low_pass=self.low_pass if far and whole_scene else None,
        )  # fmt: skip
        near = {"at-mouth": WEARER, "bystander": BYSTANDER}.get(condition, OTHER_NEAR)
        place = (WEARER_FAR if same else OTHER_FAR) if far else (WEARER if same else near)
        trigger = Part(
            command.request_id, command.request.text, "request", "wearer" if same else "bystander",
            self.wearer if same else self.other, place, gap / 1000 and GAP_SECONDS, self.low_pass if far else None,
            loudspeaker=condition == "loudspeaker" and not same,
        )  # fmt: skip
        return context, trigger

    def _aside(self, cell: tuple[str, str, int]) -> Part:
        """The other of the two, saying something of no concern while the trigger is said: a bystander from afar, or the wearer
        from where the wearer is."""
        draw = generator_for("both", *self.names)
        said = self.aside.utterances[0]
        part = Part(
            text_id(self.aside, 0), said.text, said.role, "bystander", self.other, OTHER_FAR,
            round(float(draw.uniform(*BOTH_AFTER_SECONDS)), 2), overlaps=True,
            level_db=round(float(draw.uniform(*BOTH_DB)), 1),
        )  # fmt: skip
        if cell[0] == "other":
            part = replace(part, who="wearer", voice=self.wearer, place=WEARER_FAR if cell[1] == "far" else WEARER)
        return part
