"""The evidence extractors of a session in one hand, loaded once and shared by any number of sessions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voxgate.models.changes import ChangeModel, load_change_model
from voxgate.models.evidence import Recogniser
from voxgate.models.speaker import SPEAKER_FOLDER, SpeakerModel
from voxgate.models.vad import vad_session


@dataclass(frozen=True, slots=True)
class Extractors:
    """`vad`: the speech detector's graph. `recogniser` None: no words on this system, so nothing acts. `change` None: no change
    model for this speaker encoder, so windows alone tell a change of speaker."""

    vad: Any
    speaker: SpeakerModel
    recogniser: Recogniser | None
    change: ChangeModel | None = None


def load_extractors(recogniser: Recogniser | None, speaker_folder: Path = SPEAKER_FOLDER) -> Extractors:
    """Load what ships, or another speaker model. Raises InputError for a model that is missing or does not reproduce its
    golden values."""
    speaker = SpeakerModel(speaker_folder)
    return Extractors(vad_session(), speaker, recogniser, load_change_model(speaker.encoder.sha256))
