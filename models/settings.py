"""Every setting of the gate, with its unit and range. Made once, where the command line becomes settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

RATE = 16_000
"""Sample rate in Hz at which everything behind the chunker works."""

FRAME = 512
"""Samples in one frame (32 ms): the step of the speech detector and of all evidence."""

BLOCK_SECONDS = 0.6
"""Length of a block: how often the session reports."""

INITIATOR_SECONDS = 2.0
"""Near speech of one speaker that makes a session's initiator; what the models of an initiator were fitted for."""


class GateSettings(BaseModel):
    """Settings of one session. All probabilities are 0 to 1, all times seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wearer_threshold: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="least probability that the speaker is the authorised one; unset: the profile's or the model's own",
    )
    near_threshold: float = Field(
        0.5,
        gt=0,
        lt=1,
        description="least calibrated probability that the speech comes from inside the near radius",
    )
    addressed_threshold: float = Field(
        0.5, gt=0, lt=1, description="least probability that the words are a request to the assistant"
    )
    endpoint_seconds: float = Field(0.5, ge=0.1, le=3, description="silence that ends an utterance")
    longest_utterance_seconds: float = Field(15.0, ge=2, le=30, description="an utterance is cut here")
    commit_seconds: float = Field(0.8, ge=0, le=10, description="how long an act that writes waits after the endpoint")
    initiator_seconds: float = Field(
        INITIATOR_SECONDS, ge=1, le=10, description="near speech of one speaker that makes the session's initiator"
    )
    initiator_doubt_llr: float = Field(
        1.6,
        ge=-7,
        le=7,
        description="a turn any part of which is more likely another's than this (natural log of the ratio) makes no initiator",
    )
    silent_input_seconds: float = Field(
        3.0, ge=0.5, le=60, description="exact zeros on every channel for this long are a fault"
    )
    vad_onset: float = Field(0.5, gt=0, lt=1, description="speech probability at which a frame begins speech")
    vad_offset: float = Field(
        0.35, gt=0, lt=1, description="speech probability below which a frame no longer continues speech"
    )
    preroll_seconds: float = Field(0.25, ge=0, le=1, description="sound before the onset that belongs to the utterance")
    speaker_model: str | None = Field(
        None, min_length=1, description="folder of another speaker model; unset: the one that ships"
    )
    words_timeout_seconds: float = Field(
        2.0, gt=0, le=30, description="live only: the recogniser's time for one stretch"
    )
    late_seconds: float = Field(1.5, gt=0, le=30, description="live only: audio older than this may not become an act")

    def speaking(self, probability: float, before: bool) -> bool:
        """Whether a frame holds speech, given whether the one before did; a probability that is not a number says no."""
        return probability >= (self.vad_offset if before else self.vad_onset)
