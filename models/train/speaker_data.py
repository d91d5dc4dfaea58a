"""Batches for the speaker student: virtual voices, what the teacher says of them, and corrupted stretches of their speech.

Pitch and formants moved together and apart make further speakers of every recorded one. The teacher hears each of these
virtual voices clean; half of what a short and spoilt stretch is to answer is the mean of its d-vectors over the whole clip,
half the one of the window that the stretch lies in. With the mean alone the student learns its few voices by heart.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.mel import MelParameters, mel_frames, to_level
from voxgate.models.nets.ge2e import Ge2eNet
from voxgate.models.settings import FRAME, RATE
from voxgate.models.train.corruption import Odds, Sounds, corrupt, joined, resampled, resampled_mask, with_envelope
from voxgate.models.train.progress import Tell, silent

FRAMES = 160
SYNTHESISED = "synthesised"
"""How the sources of voices that no person spoke begin."""
SHORTEST_SECONDS = 0.6
LONGEST_SECONDS = 1.6
LEAST_SPEECH_SECONDS = {"train": 3.2, "development": 6.0}
"""By role: what makes one target, and what can be cut into an enrolled and a tested part."""
LEAD_FRAMES = 12
"""Frames of 32 ms before a stretch that are corrupted with it, so that the room sounds on into it."""


@dataclass(frozen=True, slots=True)
class Clip:
    """One recorded or synthesised voice: samples (n,), speech marks (n // 512,), and the source it came from."""

    name: str
    source: str
    samples: Floats
    mask: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Warp:
    """A virtual voice: pitch (and rate) and formants times these."""

    pitch: float = 1.0
    formants: float = 1.0

    def __call__(self, samples: Floats) -> Floats:
        moved = resampled(samples, self.pitch)
        return moved if abs(self.pitch / self.formants - 1) < 0.01 else with_envelope(moved, self.pitch / self.formants)


def draw_warps(count: int, generator: np.random.Generator) -> list[Warp]:
    """The voice as it is and `count - 1` others: an octave's quarter down or up in pitch, formants partly with it."""
    warps = [Warp()]
    for _ in range(count - 1):
        pitch = float(np.exp(generator.uniform(np.log(0.84), np.log(1.19))))
        formants = pitch ** float(generator.uniform(0.2, 1.0)) * float(np.exp(generator.normal(0, 0.035)))
        warps.append(Warp(pitch, float(np.clip(formants, 0.86, 1.16))))
    return warps


@dataclass(frozen=True, slots=True)
class Material:
    """A rendered folder in memory, one role of it."""

    clips: list[Clip]
    sounds: Sounds


def read_material(folder: Path, role: str) -> Material:
    """Read the voices, responses and noises of a role (`train`, `development`). Raises InputError when it is no such folder."""
    try:
        listing = json.loads((folder / "material.json").read_text(encoding="utf-8"))
        voices = np.load(folder / "voices.npz")
        clips = [
            Clip(row["name"], row["source"], _float(voices[f"samples-{place}"]), voices[f"mask-{place}"])
            for place, row in enumerate(listing["voices"])
            if row["role"] == role and row["speech_seconds"] >= LEAST_SPEECH_SECONDS[role]
        ]
        sounds = {}
        for kind in ("responses", "noises"):
            stored = np.load(folder / f"{kind}.npz")
            rows = enumerate(listing[kind])
            sounds[kind] = [_float(stored[f"samples-{place}"]) for place, row in rows if row["role"] == role]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder}: not rendered material ({error}); render it again") from error
    if len(clips) < 2 or not all(sounds.values()):
        raise InputError(f"{folder}: no voices, responses or noises of role {role}; render it again")
    return Material(clips, Sounds(sounds["responses"], sounds["noises"], [joined(c.samples, c.mask) for c in clips]))


def _float(stored: NDArray[np.int16]) -> Floats:
    return np.asarray(stored, np.float32) / np.float32(32768)


def window_mels(samples: Floats, parameters: MelParameters) -> Floats | None:
    """At most 1.6 s of joined speech -> (160, mels), levelled and repeated as at run time; None without a level."""
    level = to_level(samples, parameters.level_dbfs)
    if level is None:
        return None
    mels = mel_frames(level, parameters)
    return mels[:FRAMES] if mels.shape[0] >= FRAMES else np.resize(mels, (FRAMES, mels.shape[1]))


@dataclass(frozen=True, slots=True)
class Targets:
    """The teacher's view of the virtual voices, one a row.

    `means` (voices, dim); `windows[row]` (w, dim) begin at `starts[row]`, in speech frames of the unwarped clip; `clip_of`,
    `source_of` (voices,) number the rows' clips and sources; `warps[row]` made it.
    """

    means: Tensor
    windows: list[Tensor]
    starts: list[NDArray[np.float64]]
    clip_of: NDArray[np.intp]
    source_of: NDArray[np.intp]
    warps: list[Warp]


def teacher_targets(
    teacher: Ge2eNet,
    clips: list[Clip],
    count: int,
    parameters: MelParameters,
    seed: int,
    cache: Path | None = None,
    tell: Tell = silent,
) -> Targets:
    """Let the teacher hear `count` virtual voices of every clip (a quarter of that of synthesised ones, which resemble each
    other). With `cache` the result is kept there, and read when it is there: some minutes of work. Raises InputError when
    what is kept there is of other voices, warps or weights."""
    numbers = {source: number for number, source in enumerate(dict.fromkeys(clip.source for clip in clips))}
    rows = []
    for number, clip in enumerate(clips):
        here = max(1, count // 4) if clip.source.startswith(SYNTHESISED) else count
        rows += [(number, warp) for warp in draw_warps(here, np.random.default_rng([seed, number, 5]))]
    key = _key(teacher, clips, count, seed) if cache is not None else ""
    if cache is not None and cache.is_file():
        with safe_open(cache, "pt") as file:
            if (file.metadata() or {}).get("of") != key:
                raise InputError(
                    f"{cache}: targets of other voices, seed or weights; choose another --out or remove it"
                )
        kept = load_file(cache)
        sizes = kept["sizes"].tolist()
        windows = list(kept["windows"].split(sizes))
        starts = [part.numpy() for part in kept["starts"].split(sizes)]
    else:
        heard = []
        for number, warp in rows:
            heard.append(_heard(teacher, clips[number], warp, parameters))
            tell("teacher: virtual voices heard", len(heard), len(rows), "")
        windows, starts = [one for one, _ in heard], [other for _, other in heard]
        if cache is not None:
            sizes = torch.tensor([len(one) for one in windows])
            kept = {"windows": torch.cat(windows), "starts": torch.from_numpy(np.concatenate(starts)), "sizes": sizes}
            save_file(kept, cache.with_suffix(".part"), {"of": key})
            cache.with_suffix(".part").replace(cache)
    return Targets(
        torch.stack([functional.normalize(vectors.mean(dim=0), dim=0) for vectors in windows]),
        windows,
        starts,
        np.array([number for number, _ in rows]),
        np.array([numbers[clips[number].source] for number, _ in rows]),
        [warp for _, warp in rows],
    )


def _key(teacher: Ge2eNet, clips: list[Clip], count: int, seed: int) -> str:
    digest = hashlib.sha256(json.dumps([count, seed, [clip.name for clip in clips]]).encode())
    for clip in clips:
        digest.update(clip.samples.tobytes() + clip.mask.tobytes())
    for value in teacher.state_dict().values():
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()


@torch.no_grad()
def _heard(teacher: Ge2eNet, clip: Clip, warp: Warp, parameters: MelParameters) -> tuple[Tensor, NDArray[np.float64]]:
    """The teacher's d-vectors of windows of 1.6 s, spread evenly over a warped clip, and where they start."""
    samples = warp(clip.samples)
    level = to_level(
        joined(samples, resampled_mask(clip.mask, warp.pitch, samples.size // FRAME)), parameters.level_dbfs
    )
    if level is None:
        raise InputError(f"{clip.name}: silent clip among the training voices; render the material again")
    mels = mel_frames(level, parameters)
    places = np.unique(np.linspace(0, mels.shape[0] - FRAMES, 2 + mels.shape[0] // FRAMES).astype(int))
    vectors = teacher(torch.from_numpy(np.stack([mels[at : at + FRAMES] for at in places])))
    return vectors, places * (parameters.hop_samples / FRAME) * warp.pitch


@dataclass(frozen=True, slots=True)
class Batch:
    """Corrupted windows `mels` (2 * voices, 160, 40), what they should say `targets` (2 * voices, dim), and the rows of
    `Targets.means` they belong to, `rows` (2 * voices,); the two of a voice follow each other. `number` counts from 0."""

    number: int
    mels: Tensor
    targets: Tensor
    rows: Tensor

    def to(self, *_: Any, **__: Any) -> Batch:
        """Batches stay on the CPU; SpeechBrain asks."""
        return self


class Batches(torch.utils.data.Dataset[Batch]):
    """Batch number n of a seed is always the same, whoever asks for it and when: a run that goes on sees what it would have."""

    def __init__(
        self,
        material: Material,
        targets: Targets,
        parameters: MelParameters,
        seed: int,
        count: int,
        voices: int = 16,
        synthesised_weight: float = 1.0,
        window_share: float = 0.5,
        odds: Odds | None = None,
        steps: int | None = None,
    ) -> None:
        """`count` batches make an epoch, the last of `steps` perhaps fewer; set `epoch` (from 0) before one begins.

        Synthesised sources are drawn `synthesised_weight` times as often as recorded ones, because they resemble each
        other."""
        self.epoch = 0
        self._material, self._targets, self._parameters = material, targets, parameters
        self._seed, self._count, self._odds = seed, count, odds or Odds()
        self._steps = steps
        self._window_share = window_share
        names = list(dict.fromkeys(clip.source for clip in material.clips))
        weights = np.array([synthesised_weight if name.startswith(SYNTHESISED) else 1.0 for name in names])
        self._chances = weights / weights.sum()
        self._voices = min(voices, len(names))

    @property
    def first(self) -> int:
        """Number of the epoch's first batch."""
        return self.epoch * self._count

    def __len__(self) -> int:
        return self._count if self._steps is None else min(self._count, self._steps - self.first)

    def __getitem__(self, place: int) -> Batch:
        number = self.first + place
        generator = np.random.default_rng([self._seed, number])
        targets = self._targets
        sources = generator.choice(self._chances.size, self._voices, replace=False, p=self._chances)
        mels, wanted, rows = [], [], []
        for source in sources:
            row = int(generator.choice(np.flatnonzero(targets.source_of == source)))
            for _ in range(2):
                place_of = int(generator.integers(len(targets.windows[row])))
                own = targets.windows[row][place_of]
                wanted.append((1 - self._window_share) * targets.means[row] + self._window_share * own)
                mels.append(self._stretch(row, float(targets.starts[row][place_of]), generator))
                rows.append(row)
        target = functional.normalize(torch.stack(wanted), dim=1)
        return Batch(number, torch.from_numpy(np.stack(mels)), target, torch.tensor(rows))

    def _stretch(self, row: int, start: float, generator: np.random.Generator) -> Floats:
        """A corrupted window (160, 40) of a virtual voice from within the 1.6 s at `start`, in speech frames of the clip."""
        clip = self._material.clips[int(self._targets.clip_of[row])]
        warp = self._targets.warps[row]
        speech = np.flatnonzero(clip.mask)
        while True:
            seconds = LONGEST_SECONDS
            if generator.uniform() < 0.6:
                seconds = float(generator.uniform(SHORTEST_SECONDS, LONGEST_SECONDS))
            tempo = float(generator.uniform(0.85, 1.2)) if generator.uniform() < self._odds.tempo else 1.0
            # Some more than is kept: effort may shorten it by raising its pitch.
            frames = min(speech.size, int(np.ceil(seconds * 1.25 * warp.pitch * max(1.0, tempo) * RATE / FRAME)) + 2)
            spare = (LONGEST_SECONDS - seconds) * warp.pitch * RATE / FRAME
            first = min(int(start + generator.uniform(0, spare)) if spare > 0 else int(start), speech.size - frames)
            begin = max(0, int(speech[first]) - LEAD_FRAMES)
            end = int(speech[first + frames - 1]) + 1
            mask = clip.mask[begin:end].copy()
            mask[: int(speech[first]) - begin] = False
            samples = warp(clip.samples[begin * FRAME : end * FRAME])
            mask = resampled_mask(mask, warp.pitch, samples.size // FRAME)
            spoilt = corrupt(samples, mask, self._material.sounds, self._odds, generator)
            window = self._window(spoilt, round(seconds * RATE), tempo)
            if window is not None:
                return window

    def _window(self, spoilt: Floats, length: int, tempo: float) -> Floats | None:
        if tempo == 1.0:
            return window_mels(spoilt[:length], self._parameters)
        # Rate without pitch: frames are read faster or slower.
        level = to_level(spoilt[: round(length * tempo)], self._parameters.level_dbfs)
        if level is None:
            return None
        mels = mel_frames(level, self._parameters)
        places = np.arange(0, mels.shape[0] - 1, tempo)
        low = places.astype(np.intp)
        part = (places - low).astype(np.float32)[:, None]
        mels = mels[low] * (1 - part) + mels[low + 1] * part
        return mels[:FRAMES] if mels.shape[0] >= FRAMES else np.resize(mels, (FRAMES, mels.shape[1]))
