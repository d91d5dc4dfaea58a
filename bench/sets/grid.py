"""The plan of `grid`: real people's commands through the measured responses of the glasses, in the cells of `cues`.

People, enrolment and rooms are those of `bench run commands`: every second command of a wearer is tested, the others enrol, in
the other acoustics. Nobody there says anything but commands, and the beginning of one already asks for something; so the
context is the last word of the wearer's next command ("again", "soon"), which asks for nothing. No two people say the same:
the other gives a command of their own. A near other is at the wearer's mouth, the only near place that was measured. The
condition `alone` has no context.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from voxgate.bench.commands import SET, TOOLS, spoken
from voxgate.bench.scenes import generator_for
from voxgate.bench.sets.cases import GAP_SECONDS, Asked, Case, Enrolment, Part, Scene, pair_facts, quiet
from voxgate.bench.sets.cues import EIGHT
from voxgate.bench.sets.rooms import (
    CUTS,
    MEASURED_ARRAY,
    OTHER_FAR,
    WEARER,
    WEARER_FAR,
    RoomSpec,
    acoustics_of,
    measured_specs,
)
from voxgate.bench.sets.voices import Voice
from voxgate.device.errors import InputError
from voxgate.models.tools.grammar import MUTE, render
from voxgate.models.tools.schema import load_tools

ARRAYS = (MEASURED_ARRAY, *CUTS)
NEEDS = ("glasses-rir", SET, "MANIFEST.tsv")
"""What it is made of, below the folder of recordings."""
FOLDS = ("even", "odd")
HELD = ("item", "voices", "rooms")
"""Nobody's voice, no recording and no response of these trained anything or set a threshold. The wordings and the tool are not
new: limits of the recogniser (`LEAST_MEAN_LOGPROB`, the second pass) were set on synthesised commands of the same grammar."""
ALONE = "alone"


def people(data: Path) -> tuple[Voice, ...]:
    """Everybody who gives commands in a folder of recordings. Raises InputError for fewer than two."""
    folders = sorted(path for path in (data / SET).glob("*") if any(path.glob("*.flac")) or any(path.glob("*.wav")))
    if len(folders) < 2:
        raise InputError(f"{data / SET}: two speakers at least; give the folder that holds {SET} as --data")
    return tuple(Voice(path.name, "recordings", (path.name,), folder=str(path.resolve())) for path in folders)


def plan(data: Path, voices: tuple[Voice, ...], seed: int, count: int | None, limit: int | None) -> list[Case]:
    """A case for every command in every acoustics, everybody in turns. Raises InputError for more than there are."""
    rooms: dict[str, list[RoomSpec]] = {}
    for spec in measured_specs(data, seed, tuple(CUTS)):
        rooms.setdefault(acoustics_of(spec), []).append(spec)
    said = spoken(data)
    texts = {voice.name: _texts(voice, said) for voice in voices}
    most = max(len(found) for found in texts.values())
    turns = itertools.product(range(most), sorted(rooms), range(len(voices)))
    cases = []
    for number, acoustics, who in turns:
        if number < len(texts[voices[who].name]):
            other = voices[(who + 1 + number // 2 % (len(voices) - 1)) % len(voices)]
            cells = _Cells(voices[who], other, number, texts, said, seed)
            draw = generator_for(seed, "grid", acoustics, cells.command)
            spec = rooms[acoustics][int(draw.integers(len(rooms[acoustics])))]
            asked = tuple(cells.all(acoustics))
            name = f"grid-{cells.command}-{acoustics}"
            cases.append(Case(name, cells.command, voices[who], (spec,), HELD, asked, cells.enrolment))
    if count is not None and count > len(cases):
        raise InputError(f"--items {count}: the recordings make {len(cases)} commands; ask for fewer")
    return cases[:count][:limit]


def _texts(voice: Voice, said: dict[str, dict[str, str]]) -> list[str]:
    """What a person says, by id, in order. Raises InputError for a sound whose words are unknown, or too few to enrol with."""
    folder = Path(voice.folder or "")
    found = sorted({path.stem for kind in ("*.flac", "*.wav") for path in folder.glob(kind)})
    unknown = [name for name in found if name not in said]
    if unknown or len(found) < 4:
        fault = f"the words of {unknown[0]} are not in MANIFEST.tsv" if unknown else "fewer than four commands"
        raise InputError(f"{folder}: {fault}; correct it, or leave this speaker out")
    return found


class _Cells:
    """The items of one command of a wearer."""

    def __init__(
        self,
        wearer: Voice,
        other: Voice,
        number: int,
        texts: dict[str, list[str]],
        said: dict[str, dict[str, str]],
        seed: int,
    ) -> None:
        mine, theirs = texts[wearer.name], texts[other.name]
        tested = mine[number % 2 :: 2]
        self.wearer, self.other, self.said, self.seed = wearer, other, said, seed
        self.command = mine[number]
        self.theirs = theirs[number % len(theirs)]
        self.context = tested[(number // 2 + 1) % len(tested)]
        clips = tuple((name, self._words(name)) for name in mine[1 - number % 2 :: 2])
        self.enrolment = Enrolment(wearer, clips, FOLDS[1 - number % 2])

    def all(self, acoustics: str) -> Iterator[Asked]:
        snr_db = quiet(self.seed, self.command, acoustics)
        context = self._words(self.context)
        for source, where, gap in EIGHT:
            opening = Part(
                self.context, context.split()[-1], "context", "wearer", self.wearer,
                WEARER_FAR if where == "far" else WEARER, ends=context,
            )  # fmt: skip
            parts = opening, self._trigger(source, where, gap / 1000 and GAP_SECONDS)
            facts = {"condition": "", "gap_ms": gap, "context_from": self.context}
            yield self._asked("eight", f"{source}/{where}/{gap}", Scene(parts, snr_db), facts)
        for source, where in itertools.product(("same", "other"), ("near", "far")):
            scene = Scene((self._trigger(source, where, 0.0),), snr_db)
            yield self._asked("four", f"{source}/{where}/none/{ALONE}", scene, {"condition": ALONE})

    def _asked(self, variant: str, cell: str, scene: Scene, facts: dict[str, Any]) -> Asked:
        trigger = scene.parts[-1]
        (tool,) = load_tools(TOOLS)
        params = self.said[trigger.text_id]
        acts = render("tool", tool.name, params)
        facts = pair_facts(self.wearer, self.other) | facts
        facts["target_by_source"] = acts if trigger.who == "wearer" else MUTE
        target = acts if cell.startswith("same/near") else MUTE
        return Asked("cue", variant, cell, target, tool.name, params, scene, len(scene.parts) - 1, facts=facts)

    def _trigger(self, source: str, where: str, gap: float) -> Part:
        if source == "same":
            place = WEARER_FAR if where == "far" else WEARER
            return Part(self.command, self._words(self.command), "request", "wearer", self.wearer, place, gap)
        place = OTHER_FAR if where == "far" else WEARER
        return Part(self.theirs, self._words(self.theirs), "request", "bystander", self.other, place, gap)

    def _words(self, name: str) -> str:
        return " ".join(self.said[name].values())
