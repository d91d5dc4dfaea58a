"""The pieces of evidence that extractors hand to the gate, and the interfaces they keep.

Unknown is None, never a number: a stretch that is too short, a channel that is dead or a value that is not finite gives
None, and the gate mutes on None.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SpeakerScore:
    """How far a stretch of speech is the authorised speaker's.

    `similarity`: cosine between the stretch and the centroid; `llr`: natural-log likelihood ratio same/other;
    `p`: the probability at equal priors, 1 / (1 + exp(-llr)).
    """

    similarity: float | None = None
    llr: float | None = None
    p: float | None = None


@dataclass(frozen=True, slots=True)
class NearScore:
    """How far a stretch of speech comes from inside the near radius; `spread_db` is the level spread over the array."""

    llr: float | None = None
    p: float | None = None
    spread_db: float | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """A wearer's own-voice signature on one array: named tensors that only `models.signature` reads.

    `array` names the array profile, `channels` its channel count; `quality` holds plain numbers for people to read.
    """

    array: str
    channels: int
    tensors: dict[str, Floats]
    quality: dict[str, float] = field(default_factory=dict)


class SpeakerEncoder(Protocol):
    """Turns speech into a d-vector. `shortest_seconds`: below it `embed` must not be asked."""

    name: str
    sha256: str
    dim: int
    shortest_seconds: float

    def embed(self, samples: Floats) -> Floats | None:
        """16 kHz mono (n,) -> L2-normalised (dim,); None when the input has no usable level or is not finite."""
        ...


class SpeakerScorer(Protocol):
    """Compares d-vectors with one authorised speaker (an enrolled wearer, or the initiator of a session)."""

    def score(self, embedding: Floats | None, speech_seconds: float, snr_db: float | None = None) -> SpeakerScore:
        """One stretch against the authorised speaker. `snr_db`: mean power of the stretch's speech frames over that of
        recent frames without speech, on the recogniser channel, dB; None when it is not known."""
        ...


class NearJudge(Protocol):
    """Tells near speech from far on one array, from per-frame features that it defines itself.

    Rows are linear in power where averaging must be meaningful, so that a mean over rows is a mean over time.
    """

    def features(self, frames: Floats) -> Floats:
        """(n, 512, channels) at 16 kHz -> (n, F): one row a frame, depending on that frame alone."""
        ...

    def judge(self, rows: Floats, speech: NDArray[np.bool_], noise: Floats | None) -> NearScore:
        """Rows (n, F) of consecutive frames, which of them hold speech (n,), and the mean row of recent frames
        without speech (F,) or None -> score. Fewer than `shortest_frames` speech frames give an unknown score."""
        ...

    shortest_frames: int


@dataclass(frozen=True, slots=True)
class Word:
    """One recognised word; times in seconds from the start of the decoded stretch, None when it could not be aligned."""

    text: str
    t0: float | None
    t1: float | None


@dataclass(frozen=True, slots=True)
class Decoded:
    """What the recogniser made of a stretch: its text as written and the mean log-probability of its tokens."""

    text: str
    mean_logprob: float


class WordsLost(Exception):
    """The recogniser gave no answer in time, or died; the stretch has no words."""


class Recogniser(Protocol):
    """Speech to text over a whole stretch. Raises WordsLost."""

    def decode(self, samples: Floats) -> Decoded: ...

    def align(self, samples: Floats, text: str) -> list[Word]:
        """Word spans of a known text, one entry a whitespace-separated word of `text`, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Understood:
    """What a text asks for.

    `kind`: `tool` (a complete call), `answer` (a request without a complete call) or `none` (asks nothing).
    `missing` names required parameters without support. `span` is the range [first, past last) of whitespace-separated
    words from the trigger to the last parameter. `addressed` is the probability that the words are a request to the
    assistant; `reasons` are contract reasons for a mute (`no_request`, `self_talk`, `side_talk`, `unsupported_params`,
    ...), strongest first, empty when the text may act.
    """

    kind: str
    tool: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    normalised: dict[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    span: tuple[int, int] = (0, 0)
    addressed: float = 0.0
    reasons: tuple[str, ...] = ()
