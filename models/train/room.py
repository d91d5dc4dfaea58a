"""Trains the near network on the folders that `calib.room_rendering` writes.

A batch is stretches of 0.5 to 3.6 s cut from scenes at random places. The network learns a distribution over distance, and
beside it, because that is what a room leaves in sound, the ratio of direct to reverberant energy and the reverberation time.
Every batch is drawn from seed and step alone, so that an interrupted run goes on with the batches it would have had.
"""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.nets.room import RoomNet
from voxgate.models.room_features import INPUTS, SPEECH_INPUT, network_inputs
from voxgate.models.room_scores import BIN_EDGES_M, DISTANCE_BINS, near_llr, share_within
from voxgate.models.runtime import write_json
from voxgate.models.train.scenes import Material, read_scenes

SEED = 20261130
LENGTHS_FRAMES = (16, 24, 31, 31, 47, 80, 112)
LEAST_SPEECH_FRAMES = 9
FIRST_FRAME = 12
"""Stretches begin no earlier: a turn has at most some frames of silence before its speech."""
RADIUS_M = 0.9
NEAR_M, FAR_M = 0.8, 1.2
"""In figures nearer than the one is near, farther than the other far; what lies between could be called either."""
DISTANCE, DRR, RT60 = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the outcome, beside the material and the seed."""

    steps: int = 12000
    batch: int = 64
    peak_rate: float = 2e-3
    warm_up_steps: int = 200
    weight_decay: float = 3e-2
    blur_bins: float = 0.8
    radius_weight: float = 1.0
    ratio_weight: float = 0.15
    decay_weight: float = 0.5
    without_noise: float = 0.15
    without_pairs: float = 0.3
    average_decay: float = 0.998
    steps_a_look: int = 300


def read_material(folder: Path) -> list[Material]:
    """Every rendered file of a folder. Raises InputError when there is none, or for a damaged one."""
    found = [read_scenes(path) for path in sorted(folder.glob("[0-9]*.npz"))]
    if not found:
        raise InputError(f"{folder}: no rendered scenes; run voxgate.calib.room_rendering first")
    return found


def cut(
    material: Material, scene: int, length: int, generator: np.random.Generator, without_noise: float
) -> Floats | None:
    """Network inputs (length, `INPUTS`) of a random stretch of a scene; None when ten tries found too little speech."""
    speech = material.speech[scene]
    for _ in range(10):
        start = int(generator.integers(FIRST_FRAME, max(FIRST_FRAME + 1, len(speech) - length + 1)))
        part = slice(start, start + length)
        if speech[part].sum() >= LEAST_SPEECH_FRAMES:
            noise = None if generator.random() < without_noise else material.noise[scene]
            return network_inputs(material.rows[scene, part], speech[part], noise)
    return None


def batch_of(
    materials: list[Material], recipe: Recipe, generator: np.random.Generator, length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Inputs (batch, frames, `INPUTS`) of one length, and the truth (batch, 5)."""
    length = length or int(generator.choice(LENGTHS_FRAMES))
    inputs: list[Floats] = []
    truth: list[Floats] = []
    while len(inputs) < recipe.batch:
        material = materials[int(generator.integers(len(materials)))]
        scene = int(generator.integers(len(material.rows)))
        piece = cut(material, scene, length, generator, recipe.without_noise)
        if piece is not None:
            inputs.append(piece)
            truth.append(material.truth[scene])
    return torch.from_numpy(np.stack(inputs)), torch.from_numpy(np.stack(truth))


def loss_of(outputs: Tensor, truth: Tensor, recipe: Recipe) -> Tensor:
    """Cross-entropy over bins blurred by half a bin, binary cross-entropy at the radius, and the two room terms."""
    logits = outputs[:, :DISTANCE_BINS]
    edges = torch.tensor(np.log(BIN_EDGES_M), dtype=torch.float32)
    place = (torch.log(truth[:, DISTANCE]) - edges[0]) / (edges[1] - edges[0]) - 0.5
    blurred = torch.softmax(-0.5 * ((torch.arange(DISTANCE_BINS) - place[:, None]) / recipe.blur_bins) ** 2, dim=1)
    distance = -(blurred * functional.log_softmax(logits, dim=1)).sum(dim=1).mean()
    within = torch.from_numpy(share_within(RADIUS_M)).float()
    near = torch.logsumexp(logits + torch.log(within.clamp(min=1e-9)), dim=1)
    far = torch.logsumexp(logits + torch.log((1 - within).clamp(min=1e-9)), dim=1)
    radius = functional.binary_cross_entropy_with_logits(near - far, (truth[:, DISTANCE] < RADIUS_M).float())
    width = outputs[:, DISTANCE_BINS + 2].clamp(-3, 2)
    ratio = (0.5 * ((outputs[:, DISTANCE_BINS] - truth[:, DRR] / 10) / width.exp()) ** 2 + width).mean()
    decay = functional.mse_loss(outputs[:, DISTANCE_BINS + 1], torch.log10(truth[:, RT60]))
    return distance + recipe.radius_weight * radius + recipe.ratio_weight * ratio + recipe.decay_weight * decay


def standardise(net: RoomNet, materials: list[Material], recipe: Recipe, seed: int) -> None:
    """Set the network's centre and scale from a few dozen batches; what never varies is left as it is."""
    pieces = [
        batch_of(materials, recipe, np.random.default_rng((seed, 1, step)))[0].flatten(0, 1) for step in range(30)
    ]
    values = torch.cat(pieces)
    # Inputs of pairs are zero for one microphone: their statistics are those of several.
    used = torch.where(values.abs().sum(dim=0) > 0, 1.0, 0.0)
    several = values[values[:, SPEECH_INPUT + 2] > 0]
    centre, scale = values.mean(dim=0), values.std(dim=0)
    if len(several):
        centre[SPEECH_INPUT + 3 :] = several[:, SPEECH_INPUT + 3 :].mean(dim=0)
        scale[SPEECH_INPUT + 3 :] = several[:, SPEECH_INPUT + 3 :].std(dim=0)
    net.centre.copy_(centre * used)
    net.scale.copy_(torch.where(scale > 1e-3, scale, torch.ones_like(scale)))


def look(net: RoomNet, held: list[Material], recipe: Recipe, seed: int) -> dict[str, float]:
    """Figures on held-out scenes, at 1 s and 1.5 s: balanced cost in bits, near and far right at zero, error of distance."""
    net.eval()
    llr, truth, outputs = [], [], []
    with torch.no_grad():
        for step in range(16):
            inputs, known = batch_of(held, recipe, np.random.default_rng((seed, 2, step)), (31, 47)[step % 2])
            found = net(inputs).numpy()
            llr.append(near_llr(found[:, :DISTANCE_BINS], RADIUS_M))
            truth.append(known.numpy())
            outputs.append(found)
    net.train()
    score, known_all, out = np.concatenate(llr), np.concatenate(truth), np.concatenate(outputs)
    near, far = score[known_all[:, DISTANCE] < NEAR_M], score[known_all[:, DISTANCE] > FAR_M]
    cost = 0.5 * (np.logaddexp(0, -near).mean() + np.logaddexp(0, far).mean()) / math.log(2)
    ratio_error = out[:, DISTANCE_BINS] * 10 - known_all[:, DRR]
    return {
        "cost_bits": float(cost),
        "near_right": float((near > 0).mean()),
        "far_right": float((far <= 0).mean()),
        "drr_error_db": float(np.abs(ratio_error).mean()),
    }


class _Run:
    """Everything an interrupted training needs to go on, and how it is kept."""

    def __init__(self, net: RoomNet, out: Path, recipe: Recipe) -> None:
        self.net, self.path, self.recipe = net, out / "checkpoint.pt", recipe
        self.optimiser = torch.optim.AdamW(net.parameters(), lr=recipe.peak_rate, weight_decay=recipe.weight_decay)
        self.average = {name: value.clone() for name, value in net.state_dict().items()}
        self.step, self.history, self.best = 0, list[dict[str, float]](), math.inf
        self.best_state = self.average
        self.of: dict[str, Any] = {}

    def keep(self) -> None:
        state = {
            name: value for name, value in self.__dict__.items() if name not in ("net", "path", "recipe", "optimiser")
        }
        temporary = self.path.with_suffix(".part")
        torch.save({**state, "net": self.net.state_dict(), "optimiser": self.optimiser.state_dict()}, temporary)
        temporary.replace(self.path)

    def resume(self) -> bool:
        if not self.path.exists():
            return False
        state = torch.load(self.path, weights_only=True)
        begun = state.get("of", {})
        other = [name for name, value in self.of.items() if begun.get(name) != value]
        if other:
            raise InputError(
                f"{self.path}: a run with another {' and '.join(other)} was begun here; choose another --out or remove it"
            )
        self.net.load_state_dict(state.pop("net"))
        self.optimiser.load_state_dict(state.pop("optimiser"))
        for name, value in state.items():
            setattr(self, name, value)
        return True

    def learn(self, inputs: Tensor, truth: Tensor, rate: float) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        loss = loss_of(self.net(inputs), truth, self.recipe)
        self.optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
        self.optimiser.step()
        self.step += 1
        decay = min(self.recipe.average_decay, self.step / (self.step + 50))
        with torch.no_grad():
            for name, value in self.net.state_dict().items():
                kept = self.average[name]
                if value.is_floating_point():
                    kept.lerp_(value, 1 - decay)
                else:
                    kept.copy_(value)


def train(
    data: Path, out: Path, seed: int = SEED, minutes: float | None = None, recipe: Recipe | None = None
) -> dict[str, Any]:
    """Train on `data/train`, stop and choose on `data/development`, write `model.safetensors` and `training.json` to `out`.

    `minutes`: the learning rate falls to its end within that time where the steps do not come to their end before. Returns
    what `training.json` holds.
    """
    recipe = recipe or Recipe()
    torch.manual_seed(seed)
    out.mkdir(parents=True, exist_ok=True)
    materials, held = read_material(data / "train"), read_material(data / "development")
    net = RoomNet(INPUTS, SPEECH_INPUT)
    run = _Run(net, out, recipe)
    files = [*(data / "train").glob("[0-9]*.npz"), *(data / "development").glob("[0-9]*.npz")]
    sizes = sorted([path.parent.name, path.name, path.stat().st_size] for path in files)
    run.of = {"recipe": asdict(recipe), "seed": seed, "material": json.dumps(sizes)}
    if not run.resume():
        standardise(net, materials, recipe, seed)
        run.average = {name: value.clone() for name, value in net.state_dict().items()}
    began, first = time.monotonic(), run.step
    judged = RoomNet(INPUTS, SPEECH_INPUT)
    net.train()
    share = run.step / recipe.steps
    while share < 1:
        rate = recipe.peak_rate * min(1, (run.step + 1) / recipe.warm_up_steps) * 0.5 * (1 + math.cos(math.pi * share))
        torch.manual_seed((seed << 20) + run.step)  # what is dropped, too, is a matter of seed and step
        generator = np.random.default_rng((seed, 0, run.step))
        inputs, truth = batch_of(materials, recipe, generator)
        # Several microphones at times pass for one: half of what is rendered is of several, and most devices have one.
        alone = torch.from_numpy(generator.random(len(inputs)) < recipe.without_pairs)
        inputs[alone, :, SPEECH_INPUT + 2 :] = 0
        run.learn(inputs, truth, max(rate, 1e-5))
        passed = (time.monotonic() - began) / 60
        share = max(run.step / recipe.steps, passed / minutes if minutes else 0.0)
        if run.step % recipe.steps_a_look and share < 1:
            continue
        judged.load_state_dict(run.average)
        figures = {"step": float(run.step), **look(judged, held, recipe, seed)}
        run.history.append(figures)
        if figures["cost_bits"] < run.best:
            run.best = figures["cost_bits"]
            run.best_state = {name: value.clone() for name, value in run.average.items()}
        run.keep()
        left = passed / max(1, run.step - first) * (recipe.steps - run.step)
        left = min(left, minutes - passed) if minutes else left
        found = ", ".join(f"{name} {value:.3f}" for name, value in figures.items() if name != "step")
        print(f"step {run.step}/{recipe.steps}: {found}; {left:.1f} min left", file=sys.stderr, flush=True)
    save_file({name: value.contiguous() for name, value in run.best_state.items()}, out / "model.safetensors")
    (out / "model.safetensors").chmod(0o644)
    scenes = {"train": sum(len(part.rows) for part in materials), "development": sum(len(part.rows) for part in held)}
    summary = {
        "seed": seed, "steps": run.step, "recipe": asdict(recipe), "scenes": scenes, "inputs": INPUTS,
        "parameters": sum(value.numel() for value in net.parameters()), "development": run.history,
    }  # fmt: skip
    write_json(out / "training.json", summary)
    return summary
