"""`voxgate export`: a network as a model folder, in int8 where that passes, with a report that says why."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from voxgate.device.errors import InputError

if TYPE_CHECKING:
    from voxgate.export.decisions import Recordings

MODELS = ("speaker", "distance")
_NEEDED = ("torch", "onnx")


def export(
    name: str, source: str | None, int8: bool, out: Path | None, data: Path | None, json_output: bool, limit: int | None
) -> int:
    """Export a network into a new folder; nothing is left there when that fails. Raises InputError."""
    if name not in MODELS:
        raise InputError(f"no model {name!r} to export: there are {', '.join(MODELS)}")
    missing = [package for package in _NEEDED if importlib.util.find_spec(package) is None]
    if missing:
        raise InputError(f"export needs {' and '.join(missing)}: pip install 'voxgate[train]'")
    out = out or Path("runs") / f"export-{name}"
    if int8:
        _require_recordings(name, data)
    else:
        given = {
            "--data": data is not None and str(data) != os.environ.get("VOXGATE_DATA"),
            "--limit": limit is not None,
        }
        for option in (option for option, is_given in given.items() if is_given):
            _say(f"{option} is not used without --int8")
    from voxgate.export.int8 import folder_is_free

    if not folder_is_free(out):
        raise InputError(f"{out}: not an empty folder that can be written to; name a new one with --out")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise InputError(f"{out}: cannot be made ({error.strerror}); name another folder with --out") from error
    try:
        report = _export(name, source, data if int8 else None, work, limit)
        work.chmod(0o755)
        work.replace(out)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if json_output:
        print(json.dumps(report, indent=2))
    else:
        _show(report, out, limit)
    return 0


def _export(name: str, source: str | None, data: Path | None, work: Path, limit: int | None) -> dict[str, Any]:
    from voxgate.export.int8 import try_int8
    from voxgate.export.report import write_report

    _say(f"exporting {name}")
    if name == "speaker":
        from voxgate.export.speaker import export_speaker

        parity = export_speaker(source, work)
    else:
        from voxgate.export.distance import export_room

        parity = _export_distance(source, work, export_room)
    config = json.loads((work / "config.json").read_text(encoding="utf-8"))
    report: dict[str, Any] = {"model": config["name"], "sha256": config["sha256"], "parity": parity}
    if data is not None:
        recordings = _recordings(name, data, work, limit)
        report["int8"] = try_int8(work, recordings, _say)
    write_report(work, report)
    return report


def _export_distance(source: str | None, work: Path, export_room: Any) -> dict[str, float]:
    from voxgate.models.room import ROOM_FOLDER

    folder = ROOM_FOLDER if source is None else Path(source)
    if (folder / "config.json").is_file():  # calibration belongs to the weights and goes along with them
        for part in ("config.json", "relative.json", "README.md"):
            if (folder / part).is_file():
                shutil.copyfile(folder / part, work / part)
    parity: dict[str, float] = export_room(folder, work)
    return parity


def _recordings(name: str, data: Path, work: Path, limit: int | None) -> Recordings:
    _say(f"reading recordings in {data}")
    if name == "speaker":
        from voxgate.bench.flips import InputEncoder, speaker_recordings
        from voxgate.models.speaker import SpeakerModel

        model = SpeakerModel(work)
        return speaker_recordings(data, cast(InputEncoder, model.encoder), model, limit=limit)
    from voxgate.bench.flips_distance import distance_recordings

    return distance_recordings(data, work, limit=limit)


def _require_recordings(name: str, data: Path | None) -> None:
    if data is None:
        raise InputError("--int8 has to prove itself on recordings: give a folder of them as --data")
    kinds = ("*.flac", "*.wav") if name == "speaker" else ("*.npz",)
    if not data.is_dir() or not any(next(data.rglob(kind), None) for kind in kinds):
        what = "wav or flac recordings" if name == "speaker" else "scenes that voxgate.calib.room_rendering wrote"
        raise InputError(f"{data}: no folder with {what}; give one as --data")


def _show(report: dict[str, Any], out: Path, limit: int | None) -> None:
    worst = max(report["parity"].values())
    print(f"{report['model']}: ONNX differs from torch by at most {worst:.1e}, {len(report['parity'])} sizes tried")
    found = report.get("int8")
    if found is not None:
        _show_int8(found, limit)
    print(f"{out}")


def _show_int8(found: dict[str, Any], limit: int | None) -> None:
    from voxgate.export.report import facts_text, limits_text, too_few_trials

    counted = next((row["flips"] for row in found["variants"] if row["flips"] is not None), None)
    if counted is not None:
        decided = f"{counted['yes_of']} decisions that ought to be yes, {counted['no_of']} that ought to be no"
        print(f"compared: {decided}, on {facts_text(found['choosing'])}")
    print(f"limits: {limits_text(found['limits'])}")
    print(f"  {'graph':22} {'size':>9} {'a pass':>10} {'time':>5}  {'flips':13} against it")
    for row in found["variants"]:
        if not row["milliseconds"]:
            print(f"  {row['name']:22} {'; '.join(row['against'])}")
            continue
        flips = "-" if row["flips"] is None else f"{100 * row['flips']['balanced']:.2f} % flip"
        sizes = f"{row['bytes'] / 1e6:6.2f} MB {row['milliseconds']:7.2f} ms"
        print(f"  {row['name']:22} {sizes} {row['time_share']:5.2f}  {flips:13} {'; '.join(row['against'])}")
    print(f"ships: {found['shipped']}, {found['why']}")
    for name, row in found["testing"].items():
        flips = row["flips"]
        counts = f"{flips['yes']} of {flips['yes_of']} and {flips['no']} of {flips['no_of']} come out otherwise"
        print(f"on {name}, which chose nothing ({facts_text(row)}): {counts}")
    if warning := too_few_trials(found):
        _say(warning + ("" if limit is None else f" Leave out --limit {limit}, or raise it."))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
