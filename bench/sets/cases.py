"""What a set is planned of: parts that are said, scenes of parts, items that ask about a scene, and cases of items.

A case is the unit of work: everything about one line of the corpus, so that its voices are heard and its rooms opened once.
A plan says all that is drawn; rendering draws nothing but noise, by the case's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from voxgate.bench.corpus import Line, Utterance
from voxgate.bench.scenes import generator_for
from voxgate.bench.sets.rooms import RoomSpec
from voxgate.bench.sets.voices import ENROLMENT, Voice, close
from voxgate.device.errors import InputError
from voxgate.models.tools.grammar import MUTE, render

QUIET_SNR_DB = (25.0, 40.0)
GAP_SECONDS = 0.6
LOW_PASS_HZ, LOW_PASS_ORDERS = (2200.0, 3800.0), (2, 4, 6)


@dataclass(frozen=True, slots=True)
class Part:
    """Something said by a voice at a place, `gap` seconds after the part before; one that `overlaps` begins so long after the
    beginning of that part instead (at most halfway through), `level_db` above the others. `low_pass`: cut-off in Hz, order.
    `ends`: what the recording says, where the part is only the end of it."""

    text_id: str
    text: str
    role: str
    who: str
    voice: Voice
    place: str
    gap: float = 0.0
    low_pass: tuple[float, int] | None = None
    loudspeaker: bool = False
    overlaps: bool = False
    level_db: float = 0.0
    ends: str | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """Parts in order, and the speech's level over that of the noise at the recogniser's microphone."""

    parts: tuple[Part, ...]
    snr_db: float


@dataclass(frozen=True, slots=True)
class Asked:
    """An item before it is rendered: `trigger` is the number of a part; without a scene it is `text` alone. It is left out of
    rooms that lack the place it `needs`."""

    family: str
    variant: str
    cell: str
    target: str
    tool: str | None
    params: Mapping[str, Any]
    scene: Scene | None
    trigger: int = -1
    text: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    needs: str | None = None

    @property
    def name(self) -> str:
        """What tells it from the other items of its case."""
        return "-".join(part for part in (self.variant, self.cell) if part).replace("/", "-").replace(":", "-")


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What a wearer is enrolled with: id and text of each clip; `name` tells it from others of the same voice."""

    voice: Voice
    clips: tuple[tuple[str, str], ...] = tuple((f"enrolment-{n}", text) for n, text in enumerate(ENROLMENT, 1))
    name: str = ""

    @property
    def slug(self) -> str:
        return self.voice.slug + (f"-{self.name}" if self.name else "")


@dataclass(frozen=True, slots=True)
class Case:
    """`held` are the axes of text and voices; a room adds its own. `own` is an enrolment other than everybody's."""

    id: str
    line: str
    wearer: Voice
    rooms: tuple[RoomSpec, ...]
    held: tuple[str, ...]
    asked: tuple[Asked, ...]
    own: Enrolment | None = None

    @property
    def enrolment(self) -> Enrolment:
        return self.own or Enrolment(self.wearer)


def target_of(part: Utterance) -> str:
    """The canonical output that an utterance must lead to."""
    if part.act == "tool":
        return render("tool", part.tool, dict(part.params))
    return "answer" if part.act == "answer" else MUTE


def text_id(line: Line, number: int) -> str:
    """What a recording of a line's utterance is called."""
    return f"{line.id}-{number + 1}"


def draw_low_pass(*names: object) -> tuple[float, int]:
    generator = generator_for("low-pass", *names)
    return round(float(generator.uniform(*LOW_PASS_HZ))), int(generator.choice(LOW_PASS_ORDERS))


def quiet(*names: object) -> float:
    """Level of speech over the noise where noise is not the question."""
    return round(float(generator_for("snr", *names).uniform(*QUIET_SNR_DB)), 1)


def draw_voices(voices: tuple[Voice, ...], within: bool, *names: object) -> tuple[Voice, Voice]:
    """Two people, of one engine or of two where there are two; much alike only where there are no others. Raises InputError
    where there are not two."""
    generator = generator_for("voices", *names)
    engines = [voice.engine for voice in voices]
    firsts = [voice for voice in voices if not within or engines.count(voice.engine) > 1] or list(voices)
    first = firsts[int(generator.integers(len(firsts)))]
    others = [voice for voice in voices if voice.name != first.name]
    if not others:
        raise InputError(f"only one voice ({first.name}) where two are needed; give more as --voices")
    others = [voice for voice in others if not close(first, voice)] or others
    chosen = [voice for voice in others if (voice.engine == first.engine) == within] or others
    return first, chosen[int(generator.integers(len(chosen)))]


def pair_facts(wearer: Voice, other: Voice) -> dict[str, Any]:
    """How far apart two voices' makers are: a vocoder alone can tell engines apart, a warp of one source is no real person."""
    return {
        "voices": [wearer.name, other.name],
        "engines": "within" if wearer.engine == other.engine else "across",
        "alike": close(wearer, other),
        "shared_source": bool(set(wearer.sources) & set(other.sources)),
    }
