"""Enrolled wearers on disk: one folder a wearer under the home, found by a checked name, deleted with proof."""

from __future__ import annotations

import os
import shutil
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from voxgate.calib.home import wearers_folder
from voxgate.device.errors import InputError, VoxgateError
from voxgate.models.profile import WearerProfile, load_profile, save_profile

LONGEST_NAME = 64
_FORBIDDEN = set('/\\:*?"<>|')
_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}


def checked_name(name: str) -> str:
    """The name in one Unicode form (NFC), fit to be a folder on any system.

    Raises InputError for a name that is empty or too long, leads or ends with a dot or a space, is reserved by some system, or
    holds a separator, a wildcard or a control character.
    """
    name = unicodedata.normalize("NFC", name)
    bad = (
        not name
        or len(name.encode("utf-8", "replace")) > LONGEST_NAME
        or name != name.strip()
        or name.startswith(".")
        or name.endswith((".", ".part"))
        or name.split(".")[0].casefold() in _RESERVED
        or any(sign in _FORBIDDEN or unicodedata.category(sign).startswith("C") for sign in name)
    )
    if bad:
        raise InputError(
            f"{name!r} cannot be a wearer's name: use up to {LONGEST_NAME} bytes of letters, digits, - and _"
        )
    return name


def wearer_folder(name: str) -> Path:
    """Where a wearer of this name is, or would be. Raises InputError for a bad name."""
    return wearers_folder() / checked_name(name)


def load_wearer(name: str) -> WearerProfile:
    """Raises InputError when nobody of this name is enrolled, or the profile is damaged or another's."""
    folder = wearer_folder(name)
    if not folder.is_dir():
        known = ", ".join(wearer_names()) or "nobody yet"
        raise InputError(f"no wearer {name!r}; enrolled: {known}")
    profile = load_profile(folder)
    if unicodedata.normalize("NFC", profile.name) != checked_name(name):
        raise InputError(f"{folder}: the profile of {profile.name!r}, not of {name}; enrol {name} again")
    return profile


def wearer_names() -> list[str]:
    """Names of the enrolled wearers in order, damaged profiles included. Raises InputError when the home cannot be read."""
    folder = wearers_folder()
    try:
        return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.endswith(".part"))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; set VOXGATE_HOME to a folder that can be read") from error


def save_wearer(profile: WearerProfile) -> Path:
    """Write a wearer's profile in the place of an older one. Raises InputError when the home cannot be written."""
    folder = wearer_folder(profile.name)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        save_profile(profile, folder)
        folder.chmod(0o700)  # a voice is personal data: nobody else's account needs it
    except OSError as error:
        raise _unwritable(folder.parent, error) from error
    return folder


def check_writable() -> None:
    """Raises InputError when wearers could not be saved: better before somebody has spoken for a minute than after."""
    folder = wearers_folder()
    probe = folder / f".{os.getpid()}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise _unwritable(folder, error) from error


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was deleted: every file, relative to the wearers' folder, and their bytes together."""

    name: str
    files: list[str]
    size_bytes: int


def forget_wearer(name: str) -> Forgotten:
    """Delete a wearer's voice, signature and all that was derived from them, then prove that nothing is left.

    A half-written profile of the same name goes too. Works on damaged profiles. Raises InputError when there is nobody of
    this name or something cannot be deleted, VoxgateError when a trace is still there afterwards.
    """
    folder = wearer_folder(name)
    traces = [folder, folder.with_name(folder.name + ".part")]
    if not any(_there(path) for path in traces):
        raise InputError(f"no wearer {name!r} to forget; enrolled: {', '.join(wearer_names()) or 'nobody'}")
    files: list[str] = []
    size = 0
    for trace in traces:
        for path in sorted(trace.rglob("*")) if trace.is_dir() and not trace.is_symlink() else []:
            if path.is_file() or path.is_symlink():
                files.append(str(path.relative_to(folder.parent)))
                size += path.lstat().st_size
        try:
            if trace.is_symlink():
                files.append(trace.name)
                trace.unlink()  # the link alone: what it points at was not made here
            elif trace.exists():
                shutil.rmtree(trace)
        except OSError as error:
            raise InputError(
                f"{error.filename or trace}: could not be deleted ({error.strerror}); change its permissions and forget again"
            ) from error
    left = [str(path) for path in traces if _there(path)]
    if left:
        raise VoxgateError(f"{left[0]}: still there after deletion; delete it by hand")
    return Forgotten(checked_name(name), files, size)


def _there(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _unwritable(folder: Path, error: OSError) -> InputError:
    reason = error.strerror or str(error)
    return InputError(f"{folder}: cannot be written ({reason}); set VOXGATE_HOME to a folder that can")
