"""The folder of a set while it is built: what is written whole or not at all, and what is found there by a later call."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from voxgate.device.errors import InputError
from voxgate.models.runtime import sha256_of

TEXTS_FILE = "texts.tsv"
BEGUN = frozenset((".lock", "settings.json.part", TEXTS_FILE, f"{TEXTS_FILE}.part"))
"""What a folder may hold that no set was begun in: the lock, and what was to be recorded for one."""
SOUNDS = frozenset(("responses", "recordings"))
"""The settings that name sounds by what is in them."""
FACTS = {"name": str, "settings": dict, "counts": dict, "bytes": int, "splits": dict, "faults": list}
"""What is told of a complete set."""
DONE = {"items": list, "segments": list, "faults": list, "files": dict}
"""What the marker of a job holds; `files` are sizes in bytes by name."""


def check_folder(out: Path) -> None:
    """Raises InputError for a folder that holds anything but a set."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; give a new or empty folder as --out")
    begun = (out / "settings.json").is_file() or not out.is_dir()
    if not begun and any(path.name not in BEGUN for path in out.iterdir()):
        raise InputError(f"{out}: not empty, and no set; give a new or empty folder as --out")


def refuse_other(out: Path, settings: dict[str, Any], sounds: bool = True) -> None:
    """Raises InputError where a set of other settings was begun; without `sounds` those of `SOUNDS` are not looked at."""
    if not (out / "settings.json").is_file():
        return
    found = _json(out / "settings.json")
    keys = settings.keys() | (found.keys() if isinstance(found, dict) else set())
    keys = keys if sounds else keys - SOUNDS
    if not isinstance(found, dict) or any(found.get(key) != settings.get(key) for key in keys):
        raise InputError(f"{out}: holds a set with other settings; give another --out or delete it")


def complete(out: Path) -> dict[str, Any]:
    """The facts of a complete set whose files are all there. Raises InputError naming what is not."""
    remedy = f"delete {out} to have the set built again, or give another --out"
    facts = _json(out / "set.json")
    if not isinstance(facts, dict) or any(not isinstance(facts.get(name), kind) for name, kind in FACTS.items()):
        raise InputError(f"{out / 'set.json'}: damaged; {remedy}")
    size = 0
    try:
        for name in ("items", "manifest"):
            path = out / f"{name}.jsonl"
            if facts.get(f"{name}_sha256", sha256_of(path)) != sha256_of(path):  # sets of earlier versions have none
                raise InputError(f"{path}: not as it was made; {remedy}")
        lines = (out / "manifest.jsonl").read_text(encoding="utf-8").split("\n")
        for audio in {str(json.loads(line)["audio"]) for line in lines if line}:
            size += (out / audio).stat().st_size
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror}); {remedy}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{out / 'manifest.jsonl'}: damaged; {remedy}") from error
    if size != facts["bytes"]:
        raise InputError(
            f"{out}: {size} bytes of sound, {facts['bytes']} when it was made; voxgate bench check {out} "
            f"tells which file; {remedy}"
        )
    return facts


def done_job(out: Path, job: str) -> dict[str, Any] | None:
    """What a job left, or None where it is to be done (again): its marker or one of its files is gone, cut off or damaged."""
    found = _json(out / "work" / "done" / f"{job}.json")
    if not isinstance(found, dict) or any(not isinstance(found.get(name), kind) for name, kind in DONE.items()):
        return None
    try:
        whole = all((out / name).stat().st_size == size for name, size in found["files"].items())
    except OSError:
        whole = False
    return found if whole else None


def _json(path: Path) -> Any:
    """What a JSON file holds; None where it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Where it cannot be written no half of it is left, and an InputError says so."""
    try:
        yield
    except OSError as error:
        with contextlib.suppress(OSError):
            path.with_name(path.name + ".part").unlink()
        raise InputError(
            f"{path}: cannot be written ({error.strerror or error}); make room for it, and the same call goes on"
        ) from error


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all. Raises InputError, as `writing`."""
    temporary = path.with_name(path.name + ".part")
    with writing(path):
        temporary.write_bytes(content)
        os.replace(temporary, path)


def write_json(path: Path, value: Any) -> None:
    write(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())
