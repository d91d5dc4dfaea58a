"""Checks a built wheel against the folders it was built from: `python tests/check_wheel.py dist`.

An unlisted subpackage or an unmatched weight imports well from an editable install and is missing from the wheel; this
finds it. The test of the packaging calls `problems` with a wheel of its own.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("device", "models", "export", "calib", "tui", "bench")
LARGEST_BYTES = 40_000_000
"""All weights together; nothing else in the wheel is of any size."""


def files_on_disk(root: Path = ROOT) -> set[str]:
    """What the wheel has to hold, as names inside it: every file of every package but caches."""
    return {
        f"voxgate/{path.relative_to(root).as_posix()}"
        for package in PACKAGES
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }


def problems(wheel: Path, root: Path = ROOT) -> list[str]:
    """What is wrong with a wheel, one line each; empty when it is right."""
    with zipfile.ZipFile(wheel) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist() if not entry.is_dir()}
    facts = {name for name in sizes if name.split("/")[0].endswith(".dist-info")}
    files = set(sizes) - facts
    found = [f"top-level name {name}" for name in sorted({name.split("/")[0] for name in files} - {"voxgate"})]
    found += [f"only in the wheel: {name}" for name in sorted(files - files_on_disk(root))]
    found += [f"missing from the wheel: {name}" for name in sorted(files_on_disk(root) - files)]
    for name in ("LICENSE", "NOTICE"):
        if not any(fact.endswith(f"/licenses/{name}") for fact in facts):
            found.append(f"no {name} in the wheel's metadata")
    if sum(sizes.values()) > LARGEST_BYTES:
        found.append(f"{sum(sizes.values()) / 1e6:.0f} MB in all, more than {LARGEST_BYTES / 1e6:.0f}")
    return found


def main(folder: str) -> int:
    wheels = sorted(Path(folder).glob("voxgate-*.whl"))
    if len(wheels) != 1:
        print(f"{folder}: {len(wheels)} wheels, one expected: remove the folder and build again", file=sys.stderr)
        return 1
    found = problems(wheels[0])
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print(f"{wheels[0].name}: {wheels[0].stat().st_size / 1e6:.1f} MB, everything in it")
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tests/check_wheel.py FOLDER")
    sys.exit(main(sys.argv[1]))
