"""Which speaker model is used: the one that ships, or a folder named by flag, environment or settings file."""

from __future__ import annotations

import sys
from pathlib import Path

from voxgate.device.errors import InputError
from voxgate.models.extractors import Extractors
from voxgate.models.speaker import SPEAKER_FOLDER, SpeakerModel
from voxgate.tui.config import resolve


def speaker_folder(settings: list[str] | None = None) -> Path:
    """Folder of the speaker model that the settings (`name=value` pairs before environment and file) name."""
    named = resolve(settings).settings.speaker_model
    return SPEAKER_FOLDER if named is None else Path(named).expanduser()


def with_model(settings: list[str] | None, folder: Path | None) -> list[str]:
    """The settings with `--speaker-model` among them, which is the strongest."""
    return [*(settings or []), *([] if folder is None else [f"speaker_model={folder}"])]


def warn_if_uncalibrated(speaker: SpeakerModel, folder: Path) -> None:
    """Say on stderr why everybody is unknown, and what to do about it."""
    if not speaker.calibrated:
        print(f"voxgate: {_remedy(folder)}: until then every speaker is unknown, and unknown mutes", file=sys.stderr)


def warn_without_change_model(extractors: Extractors, folder: Path) -> None:
    """Say on stderr what another encoder goes without: the change model knows the one that ships alone."""
    if extractors.speaker.calibrated and extractors.change is None:
        print(
            f"voxgate: {folder}: no change model for this speaker model: "
            "another's words of less than a second in the wearer's sentence may go unnoticed",
            file=sys.stderr,
        )


def refuse_uncalibrated(speaker: SpeakerModel, folder: Path) -> None:
    """Raise InputError where nobody can be enrolled, because one voice cannot be told from another yet."""
    if not speaker.calibrated:
        raise InputError(f"{_remedy(folder)}, then enrol")


def _remedy(folder: Path) -> str:
    return f"{folder}: not calibrated: first voxgate calibrate speaker --model {folder} --voices DIR"
