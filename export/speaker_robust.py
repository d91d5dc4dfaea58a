"""Makes the model folder of a trained robust speaker network: weights, graph, golden values and card."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from voxgate.device.errors import InputError
from voxgate.export.speaker import export_ge2e
from voxgate.models.train.speaker_data import LEAST_SPEECH_SECONDS, SYNTHESISED

NAME = "speaker-robust"

_CARD = """---
license: apache-2.0
library_name: onnx
tags: [speaker-verification, d-vector, ge2e, distillation]
---
# {name}: GE2E d-vectors that hear through rooms, noise and effort

**What it is.** A speaker encoder with the topology, front end and input of `speaker-ge2e`: three LSTM layers of 256 units
over 40 mel power bands, a projection with a rectifier, L2 norm: 256 values for a window of 1.6 s, 1.42 million parameters. For
clean speech its d-vectors are near the teacher's, but the two are not interchangeable: cohort, thresholds and profiles belong
to one encoder.

**How it was trained.** Teacher and starting point are the weights of Resemblyzer 0.1.4 (Resemble AI, Apache-2.0). The
student hears 0.6 to 1.6 s of a voice, repeated to 1.6 s as at run time, and is to answer with what the teacher says
of it clean ({whole} the mean of the whole clip, {window} the window that the stretch lies in): cosine loss, the batch's
similarities against the teacher's, and a softmax with margin over all voices. A fifth of the stretches is clean; the
others go through simulated devices and rooms (reverberation time 0.15 to 1.0 s, 0.05 to 4 m), household noise, babble
and made noise at 0 to 20 dB, raised effort (pitch up to 18 % higher, 2 to 9 dB an octave more above 1 kHz),
clipping, narrow bands, gain that wanders, other rates. Pitch and formants moved together and apart make {warps}
voices of every recorded one{fewer}. Of {steps} steps of {windows} windows what ships is {kept}: the choice with
the lowest cost on development voices. Seed {seed}.

**Data.** {people} speakers of LibriSpeech train-clean-100 with one clip each, {synthesised}, the noises `{noises}`, {responses}
simulated responses. No speaker of these calibrates, is in the cohort or in a test. Held out to choose by: {held_out} further
speakers, the noise `{held_noises}`, rooms of their own.

**Development figures.** Equal error rate in per cent, clean enrolment of the same session, each voice also at four
other pitches. They chose the weights and are therefore a little optimistic; those of unseen test speakers are in
docs/experiments.md.

{table}

**Files.** `onnx/model.onnx` (input `mels` (batch, frames, 40), output `embedding` (batch, 256)), `model.safetensors` (to go on
training), `config.json`, `golden.json` (values that must come out before the model is used), `training.json` (recipe and
figures by step).

**Limits.** Trained on English read aloud and on simulated corruption. One session a speaker was to be had. It is evidence,
not a lock: a recording of the wearer is the wearer's voice.

**Attribution.** Trained on LibriSpeech (V. Panayotov, G. Chen, D. Povey, S. Khudanpur, 2015), CC BY 4.0,
https://www.openslr.org/12, with {credits}. No audio is contained.

**To make it again.** `make train-speaker DATA=<folder with librispeech-train and noise>`.
"""


def make_model_folder(run: Path, material: Path, out: Path) -> Path:
    """Export the best weights of the training in `run`, which read `material`, to the model folder `out`; returns it.

    Raises InputError when the training has left no weights, or when the graph differs from torch.
    """
    try:
        best = json.loads((run / "student.json").read_text(encoding="utf-8"))
        settings = json.loads((run / "run.json").read_text(encoding="utf-8"))
        listing = json.loads((material / "material.json").read_text(encoding="utf-8"))
        lines = (run / "progress.jsonl").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"{run}: no finished training ({error}); run voxgate train speaker again") from error
    export_ge2e(run / "student.safetensors", out, NAME)
    progress = [json.loads(line) for line in lines]
    training = {"step": best["step"], **settings, "progress": [_without_clock(row) for row in progress]}
    (out / "training.json").write_text(json.dumps(training, indent=1) + "\n", encoding="utf-8")
    (out / "README.md").write_text(_card(best, settings, listing, progress[0]["eer"]), encoding="utf-8")
    return out


def _without_clock(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("at", "seconds_a_step")}


def _card(best: dict[str, Any], settings: dict[str, Any], listing: dict[str, Any], before: dict[str, float]) -> str:
    voices = listing["voices"]
    training = [voice for voice in voices if _serves(voice, "train")]
    synthesised = [voice["name"] for voice in training if voice["source"].startswith(SYNTHESISED)]
    kinds = {noise["kind"] for noise in listing["noises"]}
    noises = {role: [noise["name"] for noise in listing["noises"] if noise["role"] == role] for role in _ROLES}
    recipe = settings["recipe"]
    card = _CARD.format(
        name=NAME,
        steps=recipe["steps"],
        windows=2 * recipe["voices_a_batch"],
        warps=recipe["warps"],
        kept=_KEPT[best["weights"]].format(step=best["step"], epoch=recipe["steps_an_epoch"]),
        seed=settings["seed"],
        fewer=f", {max(1, recipe['warps'] // 4)} of every synthesised one" if synthesised else "",
        people=len(training) - len(synthesised),
        synthesised=_synthesised(synthesised),
        credits=" and ".join(words for kind, words in _CREDITS.items() if kind in kinds),
        noises="`, `".join(noises["train"]),
        responses=sum(row["role"] == "train" for row in listing["responses"]),
        held_out=sum(_serves(voice, "development") and not voice["source"].startswith(SYNTHESISED) for voice in voices),
        held_noises="`, `".join(noises["development"]),
        whole=1 - recipe["window_share"],
        window=recipe["window_share"],
        table=_table(before, best["eer"]),
    )
    paragraphs = card.split("\n\n")
    return "\n\n".join(_wrapped(text) if text.startswith("**") else text for text in paragraphs)


def _synthesised(names: list[str]) -> str:
    """How many voices no person spoke, and of which engines."""
    if not names:
        return "no synthesised voices (their engines were not installed: the bundled model's recipe has some)"
    hibari = names.count("heart")
    parts = {"styles and mixtures of styles of Kokoro-82M (Apache-2.0)": len(names) - hibari, "of hibari": hibari}
    return f"{len(names)} synthesised voices ({', '.join(f'{count} {what}' for what, count in parts.items() if count)})"


def _wrapped(text: str) -> str:
    filled = textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)
    return filled + "\n" * text.endswith("\n")


def _serves(voice: dict[str, Any], role: str) -> bool:
    return bool(voice["role"] == role and voice["speech_seconds"] >= LEAST_SPEECH_SECONDS[role])


_KEPT = {
    "average": "the moving average of the weights after step {step}",
    "mean": "the mean of the moving averages after each {epoch} steps up to step {step}",
}
_CREDITS = {
    "speech-commands": "noise of Google Speech Commands (P. Warden, 2018), CC BY 4.0",
    "room-silence": "room silence of Mycroft Precise Community Data (public domain)",
}
_ROLES = ("train", "development")


def _table(before: dict[str, float], after: dict[str, float]) -> str:
    """One row a condition and length: teacher, student."""
    rows = ["| condition, seconds | speaker-ge2e | this |", "|---|---|---|"]
    for name, value in after.items():
        if name == "loss":
            continue
        rows.append(f"| {name.replace('/', ', ')} | {100 * before[name]:.1f} | {100 * value:.1f} |")
    return "\n".join(rows)
