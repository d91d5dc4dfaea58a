"""Comparisons of voices that are not trained on, cheap enough to be made every few minutes: they choose the moment to stop.

Development speakers, each also as four virtual voices, are enrolled from clean speech and tested on the rest of their clip:
clean, with noise and in rooms that training never drew, and with effort. Voices of one source are never compared as strangers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from voxgate.models.evidence import Floats
from voxgate.models.mel import MelParameters, mel_frames, to_level
from voxgate.models.nets.ge2e import Ge2eNet
from voxgate.models.settings import FRAME, RATE
from voxgate.models.train.corruption import add_noise, effort, filtered, joined, resampled, resampled_mask
from voxgate.models.train.speaker_data import FRAMES, SYNTHESISED, Material, window_mels

CONDITIONS = ("clean", "noise", "room", "room-noise", "effort")
SECONDS = (0.6, 1.0, 1.6)
TESTS = 4
DRAWS = 2
"""Times that noise, room and effort are drawn for each voice: with fewer, luck chooses."""
SNR_DB = 10.0
WARPS = (0.87, 0.93, 1.0, 1.07, 1.14)
ENROLLED_SHARE = 0.55


@dataclass(frozen=True, slots=True)
class Development:
    """Windows (n, 160, mels) of both sides. Integer columns number voices, sources, conditions and lengths."""

    enrolled: torch.Tensor
    enrolled_voice: NDArray[np.intp]
    tested: torch.Tensor
    tested_voice: NDArray[np.intp]
    cell: NDArray[np.intp]
    source_of: NDArray[np.intp]

    @torch.no_grad()
    def measure(self, net: Ge2eNet) -> dict[str, float]:
        """Equal error rates by `condition/seconds`, their `mean`, and `loss`: the mean over the cells of the least Cllr."""
        net.eval()
        enrolled = _forward(net, self.enrolled)
        centroids = np.stack(
            [enrolled[self.enrolled_voice == voice].mean(axis=0) for voice in range(self.source_of.size)]
        )
        centroids /= np.maximum(np.linalg.norm(centroids, axis=1, keepdims=True), 1e-9)
        cosines = _forward(net, self.tested) @ centroids.T  # (tests, voices)
        same = self.tested_voice[:, None] == np.arange(self.source_of.size)
        strange = self.source_of[self.tested_voice][:, None] != self.source_of
        found, costs = {}, []
        for place, name in enumerate(cells()):
            rows = self.cell == place
            if rows.any():
                trials = cosines[rows][same[rows]], cosines[rows][strange[rows]]
                found[name] = equal_error(*trials)
                costs.append(least_cllr(*trials))
        found["mean"] = float(np.mean(list(found.values())))
        found["loss"] = float(np.mean(costs))
        return found


def cells() -> list[str]:
    """Names of the cells, in the order of their numbers."""
    return [f"{condition}/{seconds}" for condition in CONDITIONS for seconds in SECONDS]


def equal_error(same: NDArray[np.floating], strange: NDArray[np.floating]) -> float:
    """Equal error rate of scores of which those of the same voice should be higher."""
    scores = np.concatenate((same, strange))
    labels = np.concatenate((np.ones(same.size), np.zeros(strange.size)))
    order = np.argsort(scores, kind="stable")
    rejected = np.concatenate(([0.0], np.cumsum(labels[order]))) / same.size
    accepted = 1 - np.concatenate(([0.0], np.cumsum(1 - labels[order]))) / strange.size
    place = int(np.argmin(np.abs(rejected - accepted)))
    return float((rejected[place] + accepted[place]) / 2)


def least_cllr(same: NDArray[np.floating], strange: NDArray[np.floating]) -> float:
    """Cost of log-likelihood ratios in bits after the best monotone calibration (Bruemmer and du Preez 2006): it moves with
    every score, where few errors leave an error rate in steps. The calibration is pooling of adjacent violators."""
    order = np.argsort(np.concatenate((same, strange)), kind="stable")  # ties count against the scores
    labels = (order < same.size).astype(float)
    values: list[float] = []
    weights: list[float] = []
    for label in labels:
        value, weight = float(label), 1.0
        while values and values[-1] >= value:
            before = weights.pop()
            value = (values.pop() * before + value * weight) / (before + weight)
            weight += before
        values.append(value)
        weights.append(weight)
    share = np.clip(np.repeat(values, np.array(weights).round().astype(int)), 1e-4, 1 - 1e-4)
    llr = np.log(share / (1 - share)) - np.log(same.size / strange.size)
    own, other = np.logaddexp(0, -llr[labels == 1]), np.logaddexp(0, llr[labels == 0])
    return float((own.mean() + other.mean()) / (2 * np.log(2)))


def make_development(material: Material, parameters: MelParameters, seed: int = 0) -> Development:
    """Draw the comparisons, of recorded voices where there are two; the same material and seed give the same ones."""
    enrolled: list[Floats] = []
    tested: list[Floats] = []
    enrolled_voice: list[int] = []
    tested_voice: list[int] = []
    cell: list[int] = []
    source_of: list[int] = []
    people = [clip for clip in material.clips if not clip.source.startswith(SYNTHESISED)]
    clips = people if len({clip.source for clip in people}) > 1 else material.clips
    names = list(dict.fromkeys(clip.source for clip in clips))
    for number, clip in enumerate(clips):
        for warp in WARPS:
            generator = np.random.default_rng([seed, number, round(warp * 1000)])
            voice = len(source_of)
            source_of.append(names.index(clip.source))
            samples = resampled(clip.samples, warp)
            mask = resampled_mask(clip.mask, warp, samples.size // FRAME)
            split = int(np.flatnonzero(mask)[int(mask.sum() * ENROLLED_SHARE)])
            level = to_level(joined(samples[: split * FRAME], mask[:split]), parameters.level_dbfs)
            assert level is not None  # the material holds voices with some seconds of speech
            mels = mel_frames(level, parameters)
            for start in range(0, max(1, mels.shape[0] - FRAMES + 1), FRAMES // 2):
                enrolled.append(np.resize(mels[start : start + FRAMES], (FRAMES, mels.shape[1])))
                enrolled_voice.append(voice)
            samples, mask = samples[split * FRAME :], mask[split:]
            draws = [name for name in CONDITIONS for _ in range(1 if name == "clean" else DRAWS)]
            for condition in draws:
                spoilt = _under(samples, mask, condition, material, generator)
                for rank, seconds in enumerate(SECONDS):
                    length = round(seconds * RATE)
                    for index in range(min(TESTS, spoilt.size // length)):
                        window = window_mels(spoilt[index * length : (index + 1) * length], parameters)
                        if window is None:
                            continue
                        tested.append(window)
                        tested_voice.append(voice)
                        cell.append(CONDITIONS.index(condition) * len(SECONDS) + rank)
    return Development(
        torch.from_numpy(np.stack(enrolled)),
        np.array(enrolled_voice),
        torch.from_numpy(np.stack(tested)),
        np.array(tested_voice),
        np.array(cell),
        np.array(source_of),
    )


def _under(
    samples: Floats,
    mask: NDArray[np.bool_],
    condition: str,
    material: Material,
    generator: np.random.Generator,
) -> Floats:
    sounds = material.sounds
    if condition == "effort":
        samples, mask = effort(samples, mask, generator)
    if condition.startswith("room"):
        impulse = sounds.responses[int(generator.integers(len(sounds.responses)))]
        samples = filtered(samples, np.zeros(0), impulse)
    if condition.endswith("noise"):
        noise = sounds.noises[int(generator.integers(len(sounds.noises)))]
        start = int(generator.integers(noise.size))
        cut = np.take(noise, np.arange(start, start + samples.size), mode="wrap")
        samples = add_noise(samples, mask, cut, SNR_DB)
    return joined(samples, mask)


def _forward(net: Ge2eNet, mels: torch.Tensor) -> Floats:
    return np.concatenate([net(part).numpy() for part in mels.split(64)])
