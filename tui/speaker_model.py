"""Which speaker model is used: the one that ships, or a folder named by flag, environment or settings file."""

from __future__ import annotations

import sys
from pathlib import Path

from voxgate.device.arrays import ArrayProfile
from voxgate.device.errors import InputError
from voxgate.models.distance import near_is_current, needs_signature
from voxgate.models.extractors import Extractors
from voxgate.models.profile import WearerProfile
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


def warn_of_threshold(profile: WearerProfile, speaker: SpeakerModel) -> None:
    """Say on stderr that a wearer's own threshold is one of other regressions than those in use."""
    if profile.threshold_llr is not None and profile.calibration != speaker.calibration_sha256:
        print(
            f"voxgate: {profile.name}'s threshold belongs to another speaker calibration: the stricter of it and the shipped "
            f"one holds: enrol {profile.name} again",
            file=sys.stderr,
        )


def warn_of_enrolment(profile: WearerProfile | None, array: ArrayProfile) -> None:
    """Say on stderr, in a line, why near is judged without the wearer's own enrolment, and what to do about it."""
    if profile is None:
        if needs_signature(array):
            print(
                f"voxgate: nobody is enrolled on {array.name}, where near is hardly ever known without: voxgate enroll NAME "
                f"FILE... --array {array.name}, then --wearer NAME",
                file=sys.stderr,
            )
        return
    name, again = profile.name, f"near is judged as for anybody: enrol {profile.name} again"
    if profile.array != array.name:
        where = f"{name} is enrolled on {profile.array}, this is {array.name}"
        print(f"voxgate: {where}: the voice counts, but {again} with --array {array.name}", file=sys.stderr)
    elif not near_is_current(profile):
        print(f"voxgate: {name} was enrolled with another near model: {again}", file=sys.stderr)


def refuse_uncalibrated(speaker: SpeakerModel, folder: Path) -> None:
    """Raise InputError where nobody can be enrolled, because one voice cannot be told from another yet."""
    if not speaker.calibrated:
        raise InputError(f"{_remedy(folder)}, then enrol")


def _remedy(folder: Path) -> str:
    return f"{folder}: not calibrated: first voxgate calibrate speaker --model {folder} --voices DIR"
