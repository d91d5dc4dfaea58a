"""What the gate costs: shares of one core by stage, time of a block, start-up and memory, with and without words.

Each variant runs in a process of its own, on one thread, over the same recording: somebody speaks almost all the time, at
the wearer's mouth (words are decoded) or from a loudspeaker's place (they are not), in eight channels of 16 or 48 kHz or in
one. Reading asks for nothing, so what the change model takes for each call is timed apart. In the same run the speaker model's
torch network is timed beside the exported graph, where torch is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.bench.inputs import RECOGNISER, inputs_of
from voxgate.bench.record import Record
from voxgate.bench.scenes import MOUTH, REFERENCE, Responses, at_level, generator_for, speaking_frames, voices
from voxgate.calib.near_scenes import through
from voxgate.device.errors import InputError
from voxgate.models.changes import CHANGE_FILE
from voxgate.models.evidence import Floats
from voxgate.models.ge2e import SPEAKER_FOLDER
from voxgate.models.room import ROOM_FOLDER
from voxgate.models.runtime import WEIGHTS, ModelFolder, sha256_of
from voxgate.models.settings import FRAME, RATE

SCENE_SECONDS = 90.0
STARTS = 7
ENROLMENT_CLIPS = 5
TURN_SECONDS = (1.5, 3.0, 6.0)
"""Speech of the turns whose change model is timed."""
MICROPHONES = {"glasses-8": list(range(8)), "mono": [REFERENCE]}
VARIANTS = (
    # name, position, rate, with words, array
    ("wearer speaks, words", MOUTH, 16_000, True, "glasses-8"),
    ("wearer speaks, no words", MOUTH, 16_000, False, "glasses-8"),
    ("bystander speaks, words", "center", 16_000, True, "glasses-8"),
    ("wearer speaks, words, 48 kHz", MOUTH, 48_000, True, "glasses-8"),
    ("wearer speaks, words, one microphone", MOUTH, 16_000, True, "mono"),
)


def shipped() -> dict[str, str]:
    """What is measured: file and hash of the speaker graph that is run, of both judges of near and of the change model."""
    files = {
        "speaker": ModelFolder(SPEAKER_FOLDER).graph,
        "near, glasses-8": WEIGHTS / "near" / "signature-worn.json",
        "near, mono": ModelFolder(ROOM_FOLDER).graph,
        "change": CHANGE_FILE,
    }
    return {part: f"{path.relative_to(WEIGHTS)} {sha256_of(path)[:12]}" for part, path in files.items()}


def run(data: Path, out: Path, seed: int) -> dict[str, Any]:
    """Returns the summary, also in `out`. Times are of the machine it runs on: compare them within one run."""
    responses = Responses(data)
    if not responses.rooms:
        raise InputError(f"{data}: no room among the measured responses")
    room = responses.rooms[0]
    speech = voices(data, "librispeech-other")
    wearer = speech[0].speaker
    own = [voice.samples for voice in speech if voice.speaker == wearer]
    generator = generator_for(seed, "cost")
    inputs = inputs_of(data, ("glasses-rir", "librispeech-other"), (RECOGNISER,))
    settings = {"benchmark": "cost", "seed": seed, **inputs, "models": inputs["models"] | shipped()}
    with Record(out, settings) as record, tempfile.TemporaryDirectory() as scratch:
        environment = {**os.environ, "VOXGATE_HOME": str(Path(scratch) / "home"), "OMP_NUM_THREADS": "1"}
        for array, microphones in MICROPHONES.items():
            clips = []
            for number, samples in enumerate(own[:ENROLMENT_CLIPS]):
                heard = _place(responses, samples, room, MOUTH)[:, microphones]
                clips.append(_write(Path(scratch) / f"enrol-{number}.flac", heard, RATE))
            _child(["-m", "voxgate.tui.cli", "enroll", f"on-{array}", *clips, "--array", array], environment)
        figures: dict[str, Any] = {}
        for name, position, rate, words, array in VARIANTS:
            order = generator.permutation(len(own))
            dry = np.concatenate([own[i] for i in order])
            dry = np.resize(dry, int(SCENE_SECONDS * RATE)).astype(np.float32)
            sound = _place(responses, dry, room, position)[:, MICROPHONES[array]]
            path = _write(Path(scratch) / "scene.flac", sound, rate)
            record.segment(
                name,
                sound,
                voice=wearer,
                rate=RATE,
                normalisation="RMS -26 dBFS",
                boundary=(0.0, SCENE_SECONDS),
                room=f"{room}/{position}",
                played_at=rate,
            )
            if name in record.done:
                figures[name] = {k: v for p in record.predictions if p["id"] == name for k, v in p.items() if k != "id"}
                continue
            arguments = ["-m", "voxgate.bench.cost", path, "--array", array, *([] if words else ["--no-words"])]
            figures[name] = json.loads(_child(arguments, environment))
            record.prediction(name, **figures[name])
        figures["start"] = {
            "help_s": _median_seconds(["-m", "voxgate.tui.cli", "--help"], environment),
            "load_all_s": statistics.median(figures[name]["load_s"] for name, *_ in VARIANTS),
        }
        for part in ("speaker", "change"):
            figures[f"{part}_model"] = json.loads(_child(["-m", "voxgate.bench.cost", f"--{part}"], environment))
        return record.summary(figures, cpu=_cpu())


def _place(responses: Responses, samples: Floats, room: str, position: str) -> Floats:
    return at_level(through(samples, responses.get(room, position)), speaking_frames(samples))


def _write(path: Path, samples: Floats, rate: int) -> str:
    import soundfile
    import soxr

    soundfile.write(path, samples if rate == RATE else soxr.resample(samples, RATE, rate), rate)
    return str(path)


def _child(arguments: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"{' '.join(arguments[:3])} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


def _median_seconds(arguments: list[str], environment: dict[str, str]) -> float:
    times = []
    for _ in range(STARTS):
        begun = time.perf_counter()
        _child(arguments, environment)
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _measure(path: Path, words: bool, array: str) -> dict[str, Any]:
    """In the child: one session over the file, CPU time and memory of this process."""
    begun = time.perf_counter()
    from voxgate.calib.store import load_wearer
    from voxgate.device.arrays import load_array
    from voxgate.device.blocks import AudioBlock
    from voxgate.device.files import FileSource
    from voxgate.models.events import Block, Decision
    from voxgate.models.extractors import load_extractors
    from voxgate.models.session import Session
    from voxgate.models.settings import GateSettings
    from voxgate.models.tools.schema import load_tools
    from voxgate.models.words.moonshine import MoonshineRecogniser

    extractors = load_extractors(MoonshineRecogniser() if words else None)
    source = FileSource(path)
    session = Session(
        extractors,
        GateSettings(),
        load_array(array),
        load_tools(None),
        source="cost",
        rate=source.rate,
        profile=load_wearer(f"on-{array}"),
        clock=time.process_time,
    )
    load_seconds = time.perf_counter() - begun
    cpu = time.process_time()
    events = []
    for item in source.blocks():
        if isinstance(item, AudioBlock):
            events += session.push(item)
    events += session.finish()
    cpu = time.process_time() - cpu
    blocks = [event.compute_ms for event in events if isinstance(event, Block)]
    decisions = [event for event in events if isinstance(event, Decision)]
    shares = {stage: seconds / source.seconds for stage, seconds in sorted(session.costs.items())}
    return {
        "seconds": source.seconds,
        "share_of_core": cpu / source.seconds,
        "shares": {**shares, "rest": cpu / source.seconds - sum(shares.values())},
        "block_ms": {"p50": float(np.median(blocks)), "p95": float(np.quantile(blocks, 0.95)), "max": max(blocks)},
        "blocks": len(blocks),
        "decisions": len(decisions),
        "with_words": sum(bool(decision.text) for decision in decisions),
        "load_s": load_seconds,
        "peak_memory_mb": _peak_memory_mb(),
    }


def _peak_memory_mb() -> float:
    """Most memory that this process held at once. `ru_maxrss` would count what its parent held when it was started."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _speaker() -> dict[str, Any]:
    """In the child: one 1.6 s window through the exported graph and, where torch is there, through its network."""
    from voxgate.models.ge2e import Ge2eEncoder
    from voxgate.models.mel import MelParameters, mel_frames, to_level

    encoder = Ge2eEncoder()
    graph = ModelFolder(SPEAKER_FOLDER).graph.name
    window = np.random.default_rng(0).standard_normal(int(1.6 * RATE)).astype(np.float32) * 0.05
    figures: dict[str, Any] = {"window_s": 1.6, "graph": graph, "onnx_ms": _median_ms(lambda: encoder.embed(window))}
    try:
        import torch
    except ImportError:
        return {**figures, "torch_ms": None, "note": "torch is not installed: pip install 'voxgate[train]'"}
    from safetensors.torch import load_file

    from voxgate.models.nets.ge2e import Ge2eNet

    torch.set_num_threads(1)
    network = Ge2eNet().eval()
    network.load_state_dict(load_file(SPEAKER_FOLDER / "model.safetensors"))
    parameters = MelParameters()

    def by_torch() -> None:
        level = to_level(window, parameters.level_dbfs)
        assert level is not None
        with torch.inference_mode():
            network(torch.from_numpy(mel_frames(level, parameters))[None])

    figures["torch_ms"] = _median_ms(by_torch)
    return {**figures, "torch": torch.__version__, "ratio": figures["torch_ms"] / figures["onnx_ms"]}


def _change(rounds: int = 10) -> dict[str, Any]:
    """In the child: what a call costs that is searched for another voice, where no window was embedded before: the most."""
    from voxgate.models.changes import Sound, evidence, load_change_model
    from voxgate.models.ge2e import Ge2eEncoder

    encoder = Ge2eEncoder()
    model = load_change_model(encoder.sha256)
    if model is None:
        return {"note": "there is no change model for the speaker model that ships"}
    generator = np.random.default_rng(0)

    def search(sound: Sound) -> int:
        _, rows = evidence(sound, encoder, lambda vector: 0.5)
        return len(model.llr(rows))

    figures: dict[str, Any] = {}
    for seconds in TURN_SECONDS:
        frames = generator.standard_normal((round(seconds * RATE / FRAME), FRAME)).astype(np.float32) * 0.05
        sound = Sound(frames, 20.0)
        figures[f"{seconds:g} s"] = {"ms": _median_ms(partial(search, sound), rounds), "stretches": search(sound)}
    return figures


def _median_ms(work: Any, rounds: int = 40) -> float:
    """Processor time, which other work on the machine does not stretch."""
    times = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return statistics.median(times) * 1e3


def _main() -> None:
    parser = argparse.ArgumentParser(description="The measured child of the cost benchmark; prints JSON.")
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--no-words", action="store_true")
    parser.add_argument("--array", choices=MICROPHONES, default="glasses-8")
    parser.add_argument("--speaker", action="store_true")
    parser.add_argument("--change", action="store_true")
    given = parser.parse_args()
    parts = {"speaker": _speaker, "change": _change}
    work = next((work for part, work in parts.items() if getattr(given, part)), None)
    print(json.dumps(work() if work else _measure(given.file, not given.no_words, given.array)))


if __name__ == "__main__":
    _main()
