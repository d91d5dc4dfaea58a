"""The evidence extractors of a session in one hand, loaded once and shared by any number of sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from voxgate.models.evidence import Recogniser
from voxgate.models.speaker import SpeakerModel
from voxgate.models.vad import vad_session


@dataclass(frozen=True, slots=True)
class Extractors:
    """`vad`: the speech detector's graph. `recogniser` None: no words on this system, so nothing acts."""

    vad: Any
    speaker: SpeakerModel
    recogniser: Recogniser | None


def load_extractors(recogniser: Recogniser | None) -> Extractors:
    """Load what ships. Raises InputError for a model that is missing or does not reproduce its golden values."""
    return Extractors(vad_session(), SpeakerModel(), recogniser)
