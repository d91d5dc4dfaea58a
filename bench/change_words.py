"""Words without a recogniser: the seam through which the change benchmark asks the real session about every part of a scene.

Which words a recogniser makes of half a name is not what is measured here; whose words would be acted on is. So each talker's
speech counts as words of about 0.3 s, known to the sample, and whatever stretch the session decodes consists of those whose
middle lies in it. The first is a trigger and the rest are its parameter, so that every stretch asks for a call that covers all
its words: the gate alone stands between a bystander's word and an act.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.models.evidence import Decoded, Floats, NearScore, SpeakerEncoder, Word
from voxgate.models.settings import FRAME, RATE
from voxgate.models.tools.schema import Tool, ToolSet

WORD_SECONDS = 0.3
TRIGGER = "note"
WORDS = ("apples", "bread", "milk", "eggs", "salt", "pepper", "rice", "beans", "flour", "sugar", "cheese", "tea")

TOOLS = ToolSet(
    (
        Tool(
            name="note",
            description="Write down what is said.",
            parameters={"type": "object", "properties": {"body": {"type": "string"}}, "required": ["body"]},
            examples=("note {body}",),
            destructive=True,
        ),
    ),
    "change benchmark",
)
"""One destructive tool: what it alone is refused for is told apart by its reasons, so one run answers for both kinds."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A word of the scene: who says it, from when to when in seconds of the scene."""

    who: str
    t0: float
    t1: float


def words_of(spans: tuple[tuple[str, float, float], ...]) -> list[Spoken]:
    """Each talker's spans cut into words of equal length, about 0.3 s each."""
    words = []
    for who, t0, t1 in spans:
        count = max(1, round((t1 - t0) / WORD_SECONDS))
        edges = np.linspace(t0, t1, count + 1)
        words += [Spoken(who, float(a), float(b)) for a, b in itertools.pairwise(edges)]
    return words


@dataclass(slots=True)
class KnownWords:
    """The `Recogniser` of one scene. `sound` is its recogniser channel (n,), by which a stretch is found in it."""

    sound: Floats
    words: list[Spoken]
    _starts: dict[bytes, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for start in range(0, self.sound.size - FRAME + 1, FRAME):
            self._starts.setdefault(self.sound[start : start + FRAME].tobytes(), start)

    def decode(self, samples: Floats) -> Decoded:
        said = [TRIGGER, *(WORDS[number % len(WORDS)] for number in range(len(self._inside(samples)) - 1))]
        return Decoded(" ".join(said) if self._inside(samples) else "", 0.0)

    def align(self, samples: Floats, text: str) -> list[Word]:
        # A text may be older than the silence behind it, in which a last soft word can lie.
        start, found = self._start(samples), self._inside(samples)[: len(text.split())]
        return [
            Word(word, spoken.t0 - start, spoken.t1 - start) for word, spoken in zip(text.split(), found, strict=True)
        ]

    def _start(self, samples: Floats) -> float:
        return self._starts[np.ascontiguousarray(samples[:FRAME]).tobytes()] / RATE

    def _inside(self, samples: Floats) -> list[Spoken]:
        start = self._start(samples)
        end = start + samples.size / RATE
        return [word for word in self.words if start <= (word.t0 + word.t1) / 2 < end]


@dataclass(slots=True)
class Remembered:
    """The speech detector's graph, asked once for the same sound: scenes of one number differ in their ends alone."""

    graph: Any
    _answers: dict[bytes, Any] = field(default_factory=dict)

    def run(self, names: Any, inputs: dict[str, Any]) -> Any:
        key = sha256(inputs["input"].tobytes() + inputs["state"].tobytes()).digest()
        if key not in self._answers:
            self._answers[key] = self.graph.run(names, inputs)
        return self._answers[key]

    def forget(self) -> None:
        self._answers.clear()


class RememberedEncoder:
    """A speaker encoder, asked once for the same sound."""

    def __init__(self, encoder: SpeakerEncoder) -> None:
        self._encoder = encoder
        self.name, self.sha256, self.dim = encoder.name, encoder.sha256, encoder.dim
        self.shortest_seconds = encoder.shortest_seconds
        self._answers: dict[bytes, Floats | None] = {}

    def embed(self, samples: Floats) -> Floats | None:
        key = sha256(np.ascontiguousarray(samples).tobytes()).digest()
        if key not in self._answers:
            self._answers[key] = self._encoder.embed(samples)
        return self._answers[key]

    def forget(self) -> None:
        self._answers.clear()


class Near:
    """A judge for which everything is near: both people are within the radius, and only the voice can tell them apart."""

    shortest_frames = 1_000
    """More than any window, so that no change of distance is looked for."""

    def features(self, frames: Floats) -> Floats:
        return np.zeros((len(frames), 1), np.float32)

    def judge(self, rows: Floats, speech: NDArray[np.bool_], noise: Floats | None) -> NearScore:
        return NearScore(llr=7.0, p=0.999)
