"""The plan of `vgbench`: speaker-switch, side-talk and self-talk with its twins, ordinary requests and questions beside them.

Speaker switch: A says a context and the trigger (`single`), B says the trigger 600 ms later from afar (`switch`), or the words
come alone (`text-only`). Side-talk: one speaker near, both utterances, each line in both orders. Self-talk: the talk, and the
direct request of its core. Lines whose wording, tool and core are all new get new voices and rooms; the others take turns
between new and known ones, so that every axis also stands alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from voxgate.bench import corpus
from voxgate.bench.corpus import Line, Splits, Utterance
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
from voxgate.bench.sets.rooms import OTHER_FAR, WEARER, RoomSpec
from voxgate.bench.sets.voices import Voice
from voxgate.models.tools.grammar import MUTE

SWITCH, SIDE_TALK, SELF_TALK, REQUESTS, QUESTIONS = 400, 395, 223, 120, 60
"""Cases by default; the first three are the published 1,018."""
SEED_SHARE = 0.25
SIDE_GAP_SECONDS = (0.4, 0.9)

Kind = TypeVar("Kind", Voice, RoomSpec)


@dataclass(frozen=True, slots=True)
class Pools:
    """Voices and rooms that a plan may use; `limit` is the most cases of a family, `conditions` those of `cues` (None: all)."""

    voices: tuple[Voice, ...]
    rooms: tuple[RoomSpec, ...]
    measured: tuple[RoomSpec, ...]
    seed: int
    limit: int | None = None
    conditions: tuple[str, ...] | None = None


def plan(pools: Pools, pairs: int | None = None) -> list[Case]:
    """The cases; `pairs` of speaker switch, the other families in proportion. Raises InputError."""
    everything = corpus.load()
    splits = corpus.splits(everything)
    lines = {family: [line for line in everything if line.family == family] for family in corpus.FAMILIES}
    scale = 1.0 if pairs is None else pairs / SWITCH
    planner = _Planner(pools, splits)
    planner.family("switch", switch_lines(lines["contexts"], round(SWITCH * scale), pools.seed), planner.switch)
    side = round(SIDE_TALK * scale)
    both = balanced(lines["sidetalk"], -(-side // 2), pools.seed, lambda line: str(line.frame))
    planner.family("side", both, planner.side_talk)
    planner.drop_last_of_pairs(side)
    talk = balanced(lines["selftalk"], round(SELF_TALK * scale), pools.seed, lambda line: str(line.frame))
    planner.family("self", talk, planner.self_talk)
    asked = balanced(lines["direct"], round(REQUESTS * scale), pools.seed, lambda line: min(line.tools))
    planner.family("request", asked, planner.request)
    asked = balanced(lines["questions"], round(QUESTIONS * scale), pools.seed, lambda line: line.utterances[0].group)
    planner.family("question", asked, planner.request)
    return planner.cases


def switch_lines(lines: Iterable[Line], count: int, seed: int) -> list[Line]:
    """As many lines of every tool, a quarter of them cases written whole."""
    by_kind: dict[bool, list[Line]] = {True: [], False: []}
    for line in lines:
        by_kind[line.utterances[0].group == corpus.SEEDS].append(line)
    whole = round(count * SEED_SHARE)
    seeds, rest = (
        balanced(by_kind[kind], part, seed, lambda line: min(line.tools))
        for kind, part in ((True, whole), (False, count - whole))
    )
    # Spread among the others, so that a part of the set is like the whole.
    places = [(number / SEED_SHARE, line) for number, line in enumerate(seeds)]
    places += [((number + 0.5) / (1 - SEED_SHARE), line) for number, line in enumerate(rest)]
    return [line for _, line in sorted(places, key=lambda each: each[0])]


def balanced(lines: Iterable[Line], count: int, seed: int, kind: Callable[[Line], str]) -> list[Line]:
    """A seeded choice that takes turns between the kinds of lines; fewer where there are fewer."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(kind(line), []).append(line)
    for name, group in groups.items():
        random.Random(f"{seed}:{name}").shuffle(group)
    order = sorted(groups)
    random.Random(f"{seed}:kinds").shuffle(order)
    longest = max((len(group) for group in groups.values()), default=0)
    turns = [groups[name][turn] for turn in range(longest) for name in order if turn < len(groups[name])]
    return turns[:count]


class _Planner:
    def __init__(self, pools: Pools, splits: Splits) -> None:
        self.pools, self.splits = pools, splits
        self.cases: list[Case] = []

    def family(self, name: str, lines: list[Line], asked: Callable[[Line, Voice, Voice], tuple[Asked, ...]]) -> None:
        for number, line in enumerate(lines[: self.pools.limit]):
            new = (True, True) if self.splits.everything(line) else ((number + 1) % 4 < 2, number % 2 == 0)
            voices = _of(self.pools.voices, new[0], 2)
            rooms = _of(self.pools.rooms, new[1], 1)
            wearer, other = draw_voices(voices, number % 2 == 0, self.pools.seed, line.id)
            draw = generator_for(self.pools.seed, "rooms", line.id)
            specs = [pool[int(draw.integers(len(pool)))] for pool in (rooms, self.pools.measured) if pool]
            held = set(self.splits.held(line)) | ({"voices"} if wearer.held and other.held else set())
            case = Case(
                f"{name}-{number:04d}", line.id, wearer, tuple(specs), tuple(sorted(held)), asked(line, wearer, other)
            )
            self.cases.append(case)

    def drop_last_of_pairs(self, count: int) -> None:
        """Leave out the last item where an odd number is asked for."""
        last = self.cases[-1] if self.cases else None
        if last is not None and count % 2 and self.pools.limit is None:
            one = last.asked[:1]
            self.cases[-1] = Case(last.id, last.line, last.wearer, last.rooms, last.held, one)

    def switch(self, line: Line, wearer: Voice, other: Voice) -> tuple[Asked, ...]:
        context, request = line.utterances
        far = draw_low_pass(self.pools.seed, line.id) if self._half("low-pass", line) else None
        opening = Part(text_id(line, 0), context.text, context.role, "wearer", wearer, WEARER)
        near = Part(text_id(line, 1), request.text, request.role, "wearer", wearer, WEARER)
        afar = Part(text_id(line, 1), request.text, request.role, "bystander", other, OTHER_FAR, GAP_SECONDS, far)
        snr = quiet(self.pools.seed, line.id)
        about = (request.tool, dict(request.params))
        facts = pair_facts(wearer, other)
        target = target_of(request)
        words = " ".join(part.text for part in line.utterances)
        family = "speaker-switch"
        return (
            Asked(family, "single", "", target, *about, Scene((opening, near), snr), facts=facts),
            Asked(family, "switch", "", MUTE, *about, Scene((opening, afar), snr), facts=facts),
            Asked(family, "text-only", "", target, *about, None, text=words),
        )

    def side_talk(self, line: Line, wearer: Voice, other: Voice) -> tuple[Asked, ...]:
        draw = generator_for(self.pools.seed, "side-gap", line.id)
        gap = round(float(draw.uniform(*SIDE_GAP_SECONDS)), 2)
        snr = quiet(self.pools.seed, line.id)
        _, ours, theirs = str(line.frame).split(":")
        orders = [tuple(enumerate(line.utterances)), tuple(enumerate(line.utterances))[::-1]]
        out = []
        for order in orders:
            parts = tuple(
                Part(text_id(line, number), said.text, said.role, "wearer", wearer, WEARER, gap)
                for number, said in order
            )
            trigger = next(place for place, (_, said) in enumerate(order) if said.role != "person")
            said = order[trigger][1]
            first = "assistant-first" if trigger == 0 else "person-first"
            variant = f"{first}:{ours}:{theirs}"
            scene = Scene(parts, snr)
            out.append(
                Asked("side-talk", variant, "", target_of(said), said.tool, dict(said.params), scene, trigger,
                      facts={"order_written": order is orders[0]})
            )  # fmt: skip
        return tuple(out)

    def self_talk(self, line: Line, wearer: Voice, other: Voice) -> tuple[Asked, ...]:
        talk, twin = line.utterances
        snr = quiet(self.pools.seed, line.id)
        return tuple(
            Asked("self-talk", variant, "", target_of(said), said.tool, dict(said.params),
                  Scene((Part(text_id(line, number), said.text, said.role, "wearer", wearer, WEARER),), snr),
                  facts={"register": said.register})
            for number, (variant, said) in enumerate(((str(line.frame), talk), ("twin", twin)))
        )  # fmt: skip

    def request(self, line: Line, wearer: Voice, other: Voice) -> tuple[Asked, ...]:
        said: Utterance = line.utterances[0]
        family = "request" if said.role == "request" else "question"
        part = Part(text_id(line, 0), said.text, said.role, "wearer", wearer, WEARER)
        scene = Scene((part,), quiet(self.pools.seed, line.id))
        facts = {"register": said.register}
        return (Asked(family, said.register, "", target_of(said), said.tool, dict(said.params), scene, facts=facts),)

    def _half(self, what: str, line: Line) -> bool:
        return bool(generator_for(self.pools.seed, what, line.id).integers(2))


def _of(pool: tuple[Kind, ...], held: bool, least: int) -> tuple[Kind, ...]:
    """Those of a pool that are new, or known; all where there are too few of them."""
    chosen = tuple(each for each in pool if each.held == held)
    return chosen if len(chosen) >= least else pool
