"""What a session says: the events of the contract, as frozen records that become JSON lines."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

VERSION = 1

MACHINE_FIELDS = frozenset({"compute_ms", "audio_age_ms", "rtf"})
"""Fields that depend on the machine; two runs are compared without them."""

REASONS = (
    "fault", "overload", "words_lost", "silent_input", "dead_channel", "own_playback", "no_speech", "other_speaker",
    "far_field", "too_short", "unknown_speaker", "unauthorised_words", "self_talk", "side_talk", "not_addressed", "no_request",
    "malformed_call", "unsupported_params", "low_confidence",
)  # fmt: skip
"""Every reason for a mute, the strongest first: input that cannot be trusted, then who and where, then the words."""


def strongest_first(reasons: set[str]) -> list[str]:
    return sorted(reasons, key=REASONS.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    kind: ClassVar[str]
    source: str
    t: float

    def record(self) -> dict[str, Any]:
        """The event as the contract writes it, times rounded to 0.1 ms and probabilities to four places."""
        return {
            "v": VERSION,
            "kind": self.kind,
            **{key: _rounded(value) for key, value in asdict(self).items()},
        }

    def line(self, ascii_only: bool = False) -> str:
        """The event as one line of JSON; other letters are escaped where `ascii_only`, or where UTF-8 cannot hold them (a
        file name that is not text)."""
        line = json.dumps(self.record(), ensure_ascii=ascii_only, allow_nan=False)
        return line if line.isascii() or _encodable(line) else json.dumps(self.record(), allow_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block(Event):
    kind: ClassVar[str] = "block"
    t0: float
    t1: float
    speech: float
    wearer: float | None = None
    near: float | None = None
    addressed: float | None = None
    state: str = "wait"
    text: str = ""
    floor: float | None = None
    compute_ms: float = 0.0
    audio_age_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenWord:
    text: str
    t0: float | None
    t1: float | None
    wearer: float | None
    near: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Event):
    kind: ClassVar[str] = "decision"
    utterance: int
    t0: float
    t1: float
    action: str
    status: str
    tool: str | None = None
    params: dict[str, Any] | None = None
    normalised: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    output: str = "[Mute]"
    text: str = ""
    words: list[SpokenWord] = field(default_factory=list)
    wearer: float | None = None
    near: float | None = None
    addressed: float | None = None
    margins: dict[str, float | None] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    early: bool = False
    t_speech_end: float | None = None
    t_ready: float | None = None
    t_commit: float | None = None
    key: str | None = None
    supersedes: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(Event):
    kind: ClassVar[str] = "fault"
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(Event):
    kind: ClassVar[str] = "summary"
    seconds: float
    mode: str
    acts: list[dict[str, Any]]
    final: str | None
    rtf: float
    gaps: int
    lag: dict[str, float | None] = field(default_factory=dict)
    signature_drift_db: float | None = None
    """How far the wearer's speech has moved from the own-voice signature; None without one, or before enough was heard."""
    signature_moved: bool = False
    """Whether that is more than taking the array off and putting it on explains."""


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    """A record without the fields that depend on the machine."""
    return {key: value for key, value in record.items() if key not in MACHINE_FIELDS}


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value
