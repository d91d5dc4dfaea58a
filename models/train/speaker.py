"""Trains the robust speaker network: the GE2E network taught to hear through rooms, noise, devices, effort and short speech.

Teacher and student start from the same weights. The student hears a short, spoilt stretch of a virtual voice and is to answer
with what the teacher says of that voice clean and at length (`speaker_data`). Three losses: the cosine distance to that
target; the difference between the batch's own similarities and those of the voices' targets (relational distillation: Park et
al., CVPR 2019), because comparisons are what counts at run time; and a softmax with margin over all voices' targets as fixed
class centres (additive margin: Wang et al., 2018), in which other warps of the same source do not count as strangers. The
loop, its checkpoints and its recovery are SpeechBrain's, whose epochs are kept short: one ends with each checkpoint, and only
every few of them is the development measured. Averages of the weights are what comes out.
"""

from __future__ import annotations

import copy
import json
import math
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from voxgate.device.errors import InputError
from voxgate.models.mel import MelParameters
from voxgate.models.nets.ge2e import Ge2eNet
from voxgate.models.runtime import WEIGHTS, sha256_of, write_json
from voxgate.models.train.compat import prepare_torchaudio
from voxgate.models.train.development import Development, make_development
from voxgate.models.train.progress import Tell, silent
from voxgate.models.train.speaker_data import (
    SYNTHESISED,
    Batch,
    Batches,
    Material,
    Targets,
    read_material,
    teacher_targets,
)

prepare_torchaudio()

import speechbrain  # noqa: E402  (its import needs what the line above prepares)
from speechbrain.augment.freq_domain import SpectrogramDrop  # noqa: E402
from speechbrain.utils.checkpoints import Checkpointer  # noqa: E402
from speechbrain.utils.epoch_loop import EpochCounter  # noqa: E402

TEACHER = WEIGHTS / "speaker-ge2e" / "model.safetensors"
SEED = 20261130
STEPS_A_CHECKPOINT = 50
"""About so many; a run that is killed loses no more."""
_COMPLETE = "complete"
"""Marks a checkpoint that was written to its end."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the outcome, beside the material and the seed."""

    steps: int = 1500
    steps_an_epoch: int = 300
    """Steps between two measurements of the development voices."""
    voices_a_batch: int = 16
    peak_rate: float = 3.5e-4
    last_rate: float = 1e-5
    warm_up_steps: int = 100
    weight_decay: float = 1e-4
    largest_gradient: float = 1.0
    average_decay: float = 0.997
    cosine_weight: float = 2.0
    relation_weight: float = 8.0
    class_weight: float = 0.1
    class_scale: float = 20.0
    class_margin: float = 0.1
    kin_cosine: float = 0.88
    synthesised_weight: float = 0.4
    warps: int = 24
    window_share: float = 0.25

    def rate(self, number: int) -> float:
        """Learning rate of batch `number`: a linear rise over at most a fifth of the steps, then half a cosine."""
        rise = max(1, min(self.warm_up_steps, self.steps // 5))
        if number < rise:
            return self.peak_rate * (number + 1) / rise
        share = (number - rise) / max(1, self.steps - rise)
        return self.last_rate + (self.peak_rate - self.last_rate) * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))


def losses(vectors: Tensor, batch: Batch, targets: Targets, recipe: Recipe) -> dict[str, Tensor]:
    """The three losses, each a mean over what it compares; `vectors` (batch, dim)."""
    means = targets.means
    wanted = means[batch.rows]
    relation = (vectors @ vectors.T - wanted @ wanted.T).square()
    off_diagonal = ~torch.eye(len(vectors), dtype=torch.bool)
    source_of = torch.from_numpy(targets.source_of)
    # Warps of one source are no strangers: pitch alone does not make another person within one clip.
    kin = source_of[batch.rows][:, None] == source_of[None, :]  # (batch, voices)
    kin |= wanted @ means.T > recipe.kin_cosine  # nor are voices that the teacher itself can hardly tell apart
    kin[torch.arange(len(vectors)), batch.rows] = False
    logits = recipe.class_scale * (vectors @ means.T)
    margin = torch.zeros_like(logits)
    margin[torch.arange(len(vectors)), batch.rows] = recipe.class_scale * recipe.class_margin
    logits = (logits - margin).masked_fill(kin, -torch.inf)
    return {
        "cosine": (1 - (vectors * batch.targets).sum(dim=1)).mean(),
        "relation": relation[off_diagonal].mean(),
        "class": functional.cross_entropy(logits, batch.rows),
    }


class _StudentBrain(speechbrain.Brain):
    """SpeechBrain's loop around the student: losses, rate, average, development and progress."""

    def __init__(
        self,
        teacher: Ge2eNet,
        recipe: Recipe,
        targets: Targets,
        development: Development,
        batches: Batches,
        out: Path,
        seed: int,
        tell: Tell,
    ) -> None:
        student, self.average, self.mean = (copy.deepcopy(teacher) for _ in range(3))
        self.seed = seed
        self.counter = EpochCounter(math.ceil(recipe.steps / steps_a_checkpoint(recipe)))
        saved = Checkpointer(out / "checkpoints", {"average": self.average, "mean": self.mean, "counter": self.counter})
        super().__init__(
            modules={"student": student},
            opt_class=lambda parameters: torch.optim.AdamW(
                parameters, lr=recipe.peak_rate, weight_decay=recipe.weight_decay
            ),
            run_opts={"device": "cpu", "max_grad_norm": recipe.largest_gradient},
            checkpointer=saved,
        )
        saved.add_recoverable("student", student)
        self.recipe, self.targets, self.development, self.batches, self.out = recipe, targets, development, batches, out
        self.ends_at, self.tell = math.inf, tell
        # Short holes in time, as of lost samples.
        self.mask = SpectrogramDrop(drop_length_low=1, drop_length_high=8, drop_count_low=0, drop_count_high=1, dim=1)
        self._sums: dict[str, float] = {}
        self._began = time.monotonic()

    def compute_forward(self, batch: Batch, stage: Any) -> Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate(batch.number)
        torch.manual_seed(self.seed + batch.number)  # the holes of a batch are its own, after a break too
        vectors: Tensor = self.modules.student(self.mask(batch.mels))
        return vectors

    def compute_objectives(self, predictions: Tensor, batch: Batch, stage: Any) -> Tensor:
        found = losses(predictions, batch, self.targets, self.recipe)
        for name, value in found.items():
            self._sums[name] = self._sums.get(name, 0.0) + float(value.detach())
        weights = self.recipe
        return (
            weights.cosine_weight * found["cosine"]
            + weights.relation_weight * found["relation"]
            + weights.class_weight * found["class"]
        )

    @torch.no_grad()
    def on_fit_batch_end(self, batch: Batch, outputs: Tensor, loss: Tensor, should_step: bool) -> None:
        # A young average would be the teacher's weights for hundreds of steps.
        decay = min(self.recipe.average_decay, (batch.number + 1) / (batch.number + 20))
        for mean, value in zip(self.average.parameters(), self.modules.student.parameters(), strict=True):
            mean.lerp_(value, 1 - decay)
        done = batch.number + 1 - self.batches.first
        said = [f"{(time.monotonic() - self._began) / done:.2f} s a step"]
        said += [f"{name} {total / done:.4f}" for name, total in self._sums.items()]
        self.tell("trained: steps", batch.number + 1, self.recipe.steps, ", ".join(said))

    def on_fit_start(self) -> None:
        super().on_fit_start()
        # Rows that an interrupted call wrote after its last checkpoint come again.
        step = min(int(self.counter.current) * steps_a_checkpoint(self.recipe), self.recipe.steps)
        path = self.out / "progress.jsonl"
        rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [row for row in rows if row.endswith("\n") and json.loads(row)["step"] <= step]
        path.with_suffix(".part").write_text("".join(kept), encoding="utf-8")
        path.with_suffix(".part").replace(path)
        self.tell("trained: steps", step, self.recipe.steps, "")

    def on_stage_start(self, stage: Any, epoch: int | None = None) -> None:
        assert epoch is not None
        self.batches.epoch = epoch - 1
        self._sums = {}
        self._began = time.monotonic()

    def on_stage_end(self, stage: Any, stage_loss: float, epoch: int | None = None) -> None:
        assert epoch is not None
        seconds = (time.monotonic() - self._began) / len(self.batches)
        step = self.batches.first + len(self.batches)
        row = {"step": step, "steps": self.recipe.steps, "rate": self.recipe.rate(step)}
        row |= {"seconds_a_step": round(seconds, 3)}
        row |= {name: round(total / len(self.batches), 5) for name, total in self._sums.items()}
        if step % self.recipe.steps_an_epoch == 0 or step == self.recipe.steps:
            row |= self._choose(step)
            report(self.out, row)
        else:
            report(self.out, row, show=False)
        self._save(step)
        if time.monotonic() >= self.ends_at:
            self.counter.limit = epoch  # the rest is for another call

    def _choose(self, step: int) -> dict[str, Any]:
        """Measure the candidates and keep the best of them where it is the best so far; what to report of it."""
        with torch.no_grad():
            for mean, value in zip(self.mean.parameters(), self.average.parameters(), strict=True):
                mean.lerp_(value, 1 / math.ceil(step / self.recipe.steps_an_epoch))
        errors = {name: self.development.measure(net) for name, net in self._candidates().items()}
        best = min(errors, key=lambda name: errors[name]["loss"])
        if errors[best]["loss"] <= _least(self.out):
            save_file(self._candidates()[best].state_dict(), self.out / "student.safetensors")
            write_json(self.out / "student.json", {"step": step, "weights": best, "eer": errors[best]})
        losses_of = {name: round(value["loss"], 5) for name, value in errors.items()}
        return {"loss": losses_of, "weights": best, "eer": _rounded(errors[best])}

    def _save(self, step: int) -> None:
        assert self.checkpointer is not None
        saved = self.checkpointer.save_checkpoint(meta={"step": step})
        (saved.path / _COMPLETE).touch()
        self.checkpointer.delete_checkpoints(num_to_keep=2)

    def _candidates(self) -> dict[str, Ge2eNet]:
        """The average of the last steps, and the mean of these averages after each epoch so far: weights that share a start
        can be averaged along the way, and what is learnt of single voices and noises averages out (Izmailov et al., 2018)."""
        return {"average": self.average, "mean": self.mean}


def _least(out: Path) -> float:
    try:
        return float(json.loads((out / "student.json").read_text(encoding="utf-8"))["eer"]["loss"])
    except FileNotFoundError:
        return math.inf


def _rounded(errors: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 5) for name, value in errors.items()}


def steps_a_checkpoint(recipe: Recipe) -> int:
    """Steps from one checkpoint to the next: a part of an epoch that divides it."""
    return math.gcd(STEPS_A_CHECKPOINT, recipe.steps_an_epoch)


def report(out: Path, row: dict[str, Any], show: bool = True) -> None:
    """Append a line to `progress.jsonl` and, where wanted, show it."""
    line = json.dumps({"at": time.strftime("%H:%M:%S")} | row)
    with (out / "progress.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    if show:
        print(line, file=sys.stderr, flush=True)


def train_speaker(
    folder: Path,
    out: Path,
    recipe: Recipe | None = None,
    seed: int = SEED,
    minutes: float | None = None,
    workers: int = 1,
    teacher: Path = TEACHER,
    tell: Tell = silent,
) -> bool:
    """Train from rendered material in `folder`; goes on where an earlier call with the same `out` stopped.

    Writes `progress.jsonl`, `checkpoints/`, and `student.safetensors` with `student.json`: the averaged weights with the
    lowest cost on the development voices. `minutes` ends the call with the checkpoint in which they are over.
    Returns whether all steps are done. Raises InputError for material that cannot be read, or an `out` in which another
    recipe, seed, teacher or material was begun.
    """
    recipe = recipe or Recipe()
    material = read_material(folder, "train")
    facts = {
        "seed": seed,
        "recipe": asdict(recipe),
        "teacher": sha256_of(teacher),
        "material": _facts(folder, material),
    }
    out.mkdir(parents=True, exist_ok=True)
    _same_run(out / "run.json", facts)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    parameters = MelParameters()
    net = Ge2eNet()
    net.load_state_dict(load_file(teacher))
    targets = teacher_targets(
        net.eval(), material.clips, recipe.warps, parameters, seed, out / "targets.safetensors", tell
    )
    development = make_development(read_material(folder, "development"), parameters)
    if not (out / "progress.jsonl").is_file():
        errors = _rounded(development.measure(net))
        report(out, {"step": 0, "voices": len(material.clips), "virtual": len(targets.means), "eer": errors})
    batches = Batches(
        material,
        targets,
        parameters,
        seed,
        steps_a_checkpoint(recipe),
        recipe.voices_a_batch,
        recipe.synthesised_weight,
        recipe.window_share,
        steps=recipe.steps,
    )
    for checkpoint in (out / "checkpoints").glob("CKPT*"):
        if not (checkpoint / _COMPLETE).is_file():
            shutil.rmtree(checkpoint)  # a call was killed while it wrote this
    brain = _StudentBrain(net, recipe, targets, development, batches, out, seed, tell)
    if minutes is not None:
        brain.ends_at = time.monotonic() + 60 * minutes
    loader = torch.utils.data.DataLoader(
        batches,
        batch_size=None,
        num_workers=workers,
        prefetch_factor=8 if workers else None,
        worker_init_fn=_one_thread,
    )
    brain.fit(brain.counter, loader, progressbar=False)
    return int(brain.counter.current) * steps_a_checkpoint(recipe) >= recipe.steps


def _one_thread(_: int) -> None:
    torch.set_num_threads(1)


def _facts(folder: Path, material: Material) -> dict[str, Any]:
    """What tells rendered material from other material, and what it trains on."""
    sizes = {name: (folder / f"{name}.npz").stat().st_size for name in ("voices", "responses", "noises")}
    synthesised = sum(clip.source.startswith(SYNTHESISED) for clip in material.clips)
    counts = {"people": len(material.clips) - synthesised, "synthesised": synthesised}
    return {"sha256": sha256_of(folder / "material.json"), "bytes": sizes} | counts


def _same_run(path: Path, wanted: dict[str, Any]) -> None:
    wanted = json.loads(json.dumps(wanted))
    if not path.is_file():
        write_json(path, wanted)
        return
    begun = json.loads(path.read_text(encoding="utf-8"))
    other = [name for name, value in wanted.items() if begun.get(name) != value]
    if other:
        raise InputError(
            f"{path}: another {' and '.join(other)} was begun here; choose another --out or remove the folder"
        )
