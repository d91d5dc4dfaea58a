"""The gate: the contract's conjunction as a floor, and above it room for a learned gate that can only mute more."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from voxgate.models.events import SpokenWord
from voxgate.models.evidence import NearScore, SpeakerScore, Understood

MARK_REASONS = {
    "gap": "fault",
    "not_finite": "fault",
    "device": "fault",
    "model": "fault",
    "overload": "overload",
    "words_lost": "words_lost",
}
"""What a mark on a stretch of sound means for every utterance in it."""


@dataclass(frozen=True, slots=True)
class SourceEvidence:
    """Who and where of a turn, before any words. `granted`: who and where come from outside, as in a control."""

    speech_seconds: float
    speaker: SpeakerScore
    near: NearScore
    marks: frozenset[str]
    shortest_seconds: float
    granted: bool = False
    broken_array: bool = False
    """The array counts as one microphone, because its channels are not what the profile says."""


class LearnedGate(Protocol):
    """A model above the floor. It returns further reasons to mute; it cannot take one away."""

    def reasons(self, source: SourceEvidence, words: Sequence[SpokenWord], understood: Understood) -> set[str]: ...


def source_reasons(evidence: SourceEvidence, wearer_threshold: float, near_threshold: float) -> set[str]:
    """Every reason that who, where and the state of the input give to mute; empty when words may be asked for.

    Comparisons are written so that a value that is not a number mutes.
    """
    reasons = {MARK_REASONS[mark] for mark in evidence.marks}
    if evidence.granted:
        return reasons
    speaker, near = evidence.speaker.p, evidence.near.p
    if speaker is None:
        reasons.add("unknown_speaker")
        if evidence.speech_seconds < evidence.shortest_seconds:
            reasons.add("too_short")
    elif not speaker >= wearer_threshold:
        reasons.add("other_speaker")
    if near is None:
        reasons |= {"low_confidence", "dead_channel"} if evidence.broken_array else {"low_confidence"}
    elif not near >= near_threshold:
        reasons.add("far_field")
    return reasons


def word_reasons(understood: Understood, addressed_threshold: float) -> set[str]:
    """Every reason that what the words ask gives to mute."""
    reasons = set(understood.reasons)
    if not reasons and understood.kind == "none":
        reasons.add("no_request")
    if not reasons and not understood.addressed >= addressed_threshold:
        reasons.add("not_addressed")
    return reasons


def margins(**values: tuple[float | None, float]) -> dict[str, float | None]:
    """Distance of each probability to its threshold, positive on the side of acting; None where it is unknown."""
    return {name: None if value is None else value - threshold for name, (value, threshold) in values.items()}


def act_key(utterance: int, name: str, arguments: dict[str, Any]) -> str:
    """Idempotency key of an act: utterance, tool, and a digest of the arguments in canonical order."""
    canonical = json.dumps(arguments, sort_keys=True, ensure_ascii=False)
    return f"{utterance}-{name}-{hashlib.sha256(canonical.encode()).hexdigest()[:8]}"
