"""Trains the scorers of worn arrays on the tables that `calib.worn_training` writes.

Three tables: one to learn from, one to stop and calibrate by, one for the figures; they share no array, room or speaker.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from voxgate.device.errors import InputError
from voxgate.models.cells import CELL_VALUES, PLAIN_VALUES, WHOLE_VALUES
from voxgate.models.evidence import Floats
from voxgate.models.pooling import FARTHEST, Pool, PooledScorer
from voxgate.models.runtime import write_json
from voxgate.models.scorer import Scorer
from voxgate.models.spatial import BANDS

SEED = 1
HEAD, CHEST = ("glasses", "worn"), ("pendant",)
MODELS = {
    "signature-worn": ((*HEAD, "ahead"), HEAD, "signature", CELL_VALUES),
    "spread-worn": ((*HEAD, "ahead"), HEAD, "spread", PLAIN_VALUES),
    "signature-pendant": (CHEST, CHEST, "signature", CELL_VALUES),
    "spread-pendant": (CHEST, CHEST, "spread", PLAIN_VALUES),
}
"""For each model: kinds of arrays that train, kinds that stop and test, kind of cells, names of their values."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the outcome, beside the tables and the seed."""

    epochs: int = 20
    batch: int = 64
    peak_rate: float = 4e-3
    weight_decay: float = 1e-3
    dropout: float = 0.1
    jitter: float = 0.1
    """Deviation of the noise on standardised values, in training."""
    shift: float = 0.15
    """Deviation of an offset that all cells of a stretch share, value by value: no simulation is that exact."""
    smoothing: float = 0.01
    frame_share: float = 0.5
    """Share of a stretch's frames that a step sees."""
    hidden: int = 24
    features: int = 12
    output: int = 24


@dataclass(frozen=True, slots=True)
class Table:
    """Stretches in a row: cells (sum of frames x B, V), mean rows (n, B, V), values of the whole (n, W), frames of each (n,),
    whether near (n,)."""

    cells: NDArray[np.float16]
    mean: Floats
    whole: Floats
    frames: NDArray[np.intp]
    near: NDArray[np.bool_]

    @property
    def starts(self) -> NDArray[np.intp]:
        return np.concatenate(([0], np.cumsum(self.frames * BANDS)))


def read_table(paths: list[Path]) -> Table:
    """Tables of several files one after the other, of each the stretches that its column `keep` marks.

    Raises InputError when one is missing.
    """
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in ("cells", "mean", "whole", "frames", "near")}
    for path in paths:
        try:
            with np.load(path) as file:
                kept = file["keep"]
                columns["cells"].append(file["cells"][np.repeat(kept, file["frames"] * BANDS)])
                for name in ("mean", "whole", "frames", "near"):
                    columns[name].append(file[name][kept])
        except OSError as error:
            raise InputError(
                f"{path}: no table of stretches ({error}); run voxgate.calib.worn_training first"
            ) from error
    return Table(**{name: np.concatenate(column) for name, column in columns.items()})


class PoolNet(nn.Module):
    """`models.pooling.Pool` over the cells of many stretches at once."""

    def __init__(self, values: int, recipe: Recipe) -> None:
        super().__init__()
        self.inner = nn.Linear(values, recipe.hidden)
        self.features = nn.Linear(recipe.hidden, recipe.features)
        self.weights = nn.Linear(recipe.hidden, 2)

    def forward(self, cells: Tensor, stretch: Tensor, count: int, share: float = 1.0) -> Tensor:
        """(cells, V), the stretch that each belongs to -> (count, 2 k + 2); `share`: how many of the cells these are."""
        inner = torch.tanh(self.inner(cells))
        features = torch.tanh(self.features(inner))
        weights = self.weights(inner).clamp(-8, 8).exp()
        total = torch.zeros(count, 2).index_add(0, stretch, weights)
        pooled = [
            torch.zeros(count, features.shape[1]).index_add(0, stretch, features * weights[:, n : n + 1])
            / total[:, n : n + 1]
            for n in (0, 1)
        ]
        return torch.cat((*pooled, 0.3 * (total / share).log()), dim=1)


class PooledNet(nn.Module):
    """`models.pooling.PooledScorer` in torch: standardised cells in, score out, before calibration."""

    def __init__(self, values: int, of_whole: int, recipe: Recipe) -> None:
        super().__init__()
        self.single = PoolNet(values, recipe)
        self.mean = PoolNet(values, recipe)
        self.dropout = nn.Dropout(recipe.dropout)
        self.output_inner = nn.Linear(2 * (2 * recipe.features + 2) + 1 + of_whole, recipe.output)
        self.output = nn.Linear(recipe.output, 1)

    def forward(self, cells: Tensor, stretch: Tensor, mean: Tensor, whole: Tensor, share: float) -> Tensor:
        count, bands = mean.shape[:2]
        of_mean = torch.arange(count).repeat_interleave(bands)
        values = torch.cat(
            (
                whole[:, :1],
                self.single(cells, stretch, count, share),
                self.mean(mean.flatten(0, 1), of_mean, count),
                whole[:, 1:],
            ),
            dim=1,
        )
        return torch.as_tensor(self.output(torch.tanh(self.output_inner(self.dropout(values))))[:, 0])


@dataclass(frozen=True, slots=True)
class _Standard:
    """Mean and deviation of the training's values, single cells and mean rows."""

    single: tuple[Floats, Floats]
    mean: tuple[Floats, Floats]
    whole: tuple[Floats, Floats]

    @staticmethod
    def of(table: Table, seed: int) -> _Standard:
        some = table.cells[np.random.default_rng(seed).integers(0, len(table.cells), 200_000)].astype(np.float32)
        flat = table.mean.reshape(-1, table.mean.shape[-1])
        return _Standard(
            (some.mean(axis=0), some.std(axis=0) + np.float32(1e-3)),
            (flat.mean(axis=0), flat.std(axis=0) + np.float32(1e-3)),
            (table.whole.mean(axis=0), table.whole.std(axis=0) + np.float32(1e-3)),
        )


def _batch(
    table: Table,
    starts: NDArray[np.intp],
    chosen: NDArray[np.intp],
    standard: _Standard,
    share: float,
    generator: np.random.Generator,
) -> tuple[Tensor, ...]:
    """Standardised cells of a share of the frames, their stretches, mean rows, and length and values of the whole of
    the chosen stretches."""

    def standardised(values: Floats, centre: Floats, scale: Floats) -> Tensor:
        return torch.from_numpy(np.clip((values - centre) / scale, -FARTHEST, FARTHEST))

    parts, counts = [], []
    for number in chosen:
        frames = table.cells[starts[number] : starts[number + 1]].reshape(-1, BANDS, table.cells.shape[1])
        count = max(1, round(len(frames) * share))
        parts.append(frames[generator.permutation(len(frames))[:count]].reshape(-1, frames.shape[2]))
        counts.append(count * BANDS)
    length = torch.from_numpy(np.asarray(2 * np.log10(table.frames[chosen]) - 2.5, np.float32))
    return (
        standardised(np.concatenate(parts).astype(np.float32), *standard.single),
        torch.from_numpy(np.repeat(np.arange(len(chosen)), counts)),
        standardised(table.mean[chosen], *standard.mean),
        torch.cat((length[:, None], standardised(table.whole[chosen], *standard.whole)), dim=1),
    )


def train(
    tables: tuple[Table, Table], inputs: tuple[str, ...], seed: int = SEED, recipe: Recipe | None = None
) -> tuple[PooledScorer, dict[str, Any]]:
    """Learn from the first table, stop and calibrate by the second; returns the scorer and what was found on the way."""
    recipe = recipe or Recipe()
    learn, tune = tables
    if learn.cells.shape[1] != len(inputs):
        raise InputError(f"the tables hold {learn.cells.shape[1]} values a cell, not {len(inputs)}: render them again")
    torch.manual_seed(seed)
    generator = np.random.default_rng(seed)
    standard = _Standard.of(learn, seed)
    net = PooledNet(len(inputs), learn.whole.shape[1], recipe)
    optimiser = torch.optim.AdamW(net.parameters(), lr=recipe.peak_rate, weight_decay=recipe.weight_decay)
    batches = max(1, len(learn.near) // recipe.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, recipe.peak_rate, total_steps=recipe.epochs * batches, pct_start=0.2
    )
    share, starts = float(learn.near.mean()), learn.starts
    best, best_cost, best_epoch = _scorer(net, standard, inputs), np.inf, 0
    for epoch in range(1, recipe.epochs + 1):
        net.train()
        for chosen in np.array_split(generator.permutation(len(learn.near)), batches):
            cells, stretch, mean, whole = _batch(
                learn, starts, np.sort(chosen), standard, recipe.frame_share, generator
            )
            shift = recipe.shift * torch.randn(len(mean), cells.shape[1])
            cells = cells + recipe.jitter * torch.randn_like(cells) + shift[stretch]
            score = net(cells, stretch, mean + shift[:, None], whole, recipe.frame_share)
            near = torch.from_numpy(learn.near[np.sort(chosen)])
            # Both answers weigh the same, so that the score is a log-likelihood ratio.
            weight = torch.where(near, 0.5 / share, 0.5 / (1 - share))
            target = near * (1 - 2 * recipe.smoothing) + recipe.smoothing
            loss = functional.binary_cross_entropy_with_logits(score, target, weight=weight)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        if epoch % 3 == 0 or epoch == recipe.epochs:
            scorer = _scorer(net, standard, inputs)
            cost = balanced_bits(scores(scorer, tune), tune.near)
            print(f"epoch {epoch}: cost {cost:.4f} bits on the second table", file=sys.stderr, flush=True)
            if cost < best_cost:
                best, best_cost, best_epoch = scorer, cost, epoch
    slope, offset = calibration(scores(best, tune), tune.near)
    best = replace(best, slope=slope, offset=offset)
    if learn.whole.shape[1]:
        best = replace(best, aside=_aside(learn, tune, standard, seed))
    return best, {"seed": seed, "epoch": best_epoch, "stretches": {"train": len(learn.near), "tune": len(tune.near)}}


def _aside(learn: Table, tune: Table, standard: _Standard, seed: int) -> Scorer:
    """A scorer of the values of the whole alone: one tanh layer of 16, stopped and calibrated by the second table."""
    torch.manual_seed(seed)
    centre, scale = standard.whole
    near = torch.from_numpy(learn.near)
    inputs = torch.from_numpy(np.clip((learn.whole - centre) / scale, -FARTHEST, FARTHEST))
    inner, output = nn.Linear(inputs.shape[1], 16), nn.Linear(16, 1)
    optimiser = torch.optim.Adam((*inner.parameters(), *output.parameters()), lr=0.01, weight_decay=1e-3)
    share = float(learn.near.mean())
    weight = torch.where(near, 0.5 / share, 0.5 / (1 - share))
    best, best_cost, heard = None, np.inf, tune.whole.astype(np.float64)
    for step in range(1, 1501):
        score = output(torch.tanh(inner(inputs + 0.05 * torch.randn_like(inputs))))[:, 0]
        loss = functional.binary_cross_entropy_with_logits(score, near.float(), weight=weight)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 50 == 0:
            weights = _matrix(inner).astype(np.float64), _matrix(output)[:, 0].astype(np.float64)
            scorer = Scorer(WHOLE_VALUES, centre.astype(np.float64), scale.astype(np.float64), *weights)
            cost = balanced_bits(scorer.llr(heard), tune.near)
            if cost < best_cost:
                best, best_cost = scorer, cost
    assert best is not None
    slope, offset = calibration(best.llr(heard), tune.near)
    return replace(best, slope=slope, offset=offset)


def scores(scorer: PooledScorer, table: Table) -> NDArray[np.float64]:
    """Log-likelihood ratio of every stretch, by the scorer that ships and not by its torch twin."""
    starts = table.starts
    found = [
        scorer.llr(table.cells[first:past].astype(np.float32).reshape(-1, BANDS, table.cells.shape[1]), mean, whole)
        for first, past, mean, whole in zip(starts[:-1], starts[1:], table.mean, table.whole, strict=True)
    ]
    return np.array(found)


def balanced_bits(llr: NDArray[np.float64], near: NDArray[np.bool_]) -> float:
    """Cllr in bits: log loss at equal priors (Bruemmer and du Preez, 2006)."""
    loss = 0.5 * np.logaddexp(0, -llr[near]).mean() + 0.5 * np.logaddexp(0, llr[~near]).mean()
    return float(loss / np.log(2))


def calibration(llr: NDArray[np.float64], near: NDArray[np.bool_]) -> tuple[float, float]:
    """Slope and offset of least balanced cost, on a grid."""
    grid = [
        (balanced_bits(llr * slope + offset, near), float(slope), float(offset))
        for slope in np.geomspace(0.4, 2, 25)
        for offset in np.linspace(-1.5, 1.5, 31)
    ]
    return min(grid)[1:]


def _matrix(layer: nn.Linear) -> Floats:
    """Weights (inputs + 1, outputs), the last row being the bias."""
    stacked = torch.cat((layer.weight.T, layer.bias[None])).detach().numpy()
    return np.asarray(stacked, np.float32).copy()


def _scorer(net: PooledNet, standard: _Standard, inputs: tuple[str, ...]) -> PooledScorer:
    """The network's weights as the numpy scorer."""

    def pool(part: PoolNet, values: tuple[Floats, Floats]) -> Pool:
        return Pool(*values, _matrix(part.inner), _matrix(part.features), _matrix(part.weights))

    return PooledScorer(
        inputs,
        pool(net.single, standard.single),
        pool(net.mean, standard.mean),
        _matrix(net.output_inner),
        _matrix(net.output)[:, 0],
        whole_centre=standard.whole[0],
        whole_scale=standard.whole[1],
    )


def figures(llr: NDArray[np.float64], paths: list[Path]) -> dict[str, Any]:
    """Right answers on stretches with these scores, in the order of the tables: counts, and shares by condition."""
    columns: dict[str, list[Any]] = {name: [] for name in ("near", "array", "condition", "snr_db", "rival_db", "gains")}
    for path in paths:
        with np.load(path) as file:
            for name, column in columns.items():
                column.append(file[name][file["keep"]])
    facts = {name: np.concatenate(column) for name, column in columns.items()}
    near, snr, rival = facts["near"], facts["snr_db"], facts["rival_db"]
    own = near & (facts["condition"] == "own")
    both = near & (facts["condition"] == "own over far")
    right = (llr > 0) == near
    cells = {
        "own, quiet": own & (snr >= 60),
        "own, 3 to 25 dB": own & (snr < 60) & (snr > 3),
        "own, -5 to 3 dB": own & (snr <= 3),
        "own over a softer talker": both & (rival <= 0),
        "own over a louder talker": both & (rival > 0),
        "far, quiet": ~near & (snr >= 60),
        "far, 3 to 25 dB": ~near & (snr < 60) & (snr > 3),
        "far, -5 to 3 dB": ~near & (snr <= 3),
        "own, gains off by up to 12 dB or levelled": near & np.isin(facts["gains"], ("12 dB", "levelled")),
    }
    return {
        "arrays": len(np.unique(facts["array"])),
        "stretches": len(near),
        "right": {
            name: {"count": int(cell.sum()), "share": round(float(right[cell].mean()), 4)}
            for name, cell in cells.items()
            if cell.any()
        },
        "cllr_bits": round(balanced_bits(np.clip(llr, -8, 8), near), 4),
    }


def train_all(folder: Path, out: Path, seed: int = SEED, names: tuple[str, ...] = tuple(MODELS), **recipe: Any) -> None:
    """Train the named models on the tables of `folder` and write them into `out`, golden values and figures included."""
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        learning, judging, sort, inputs = MODELS[name]
        train_paths, tune_paths, test_paths = (
            [folder / f"{kind}-{split}-{sort}.npz" for kind in kinds]
            for kinds, split in ((learning, "train"), (judging, "tune"), (judging, "test"))
        )
        scorer, found = train((read_table(train_paths), read_table(tune_paths)), inputs, seed, Recipe(**recipe))
        # What is written is rounded; golden values and figures are those of what is written.
        scorer = PooledScorer.from_record(scorer.record())
        found["test"] = figures(scores(scorer, read_table(test_paths)), test_paths)
        write_json(
            out / f"{name}.json",
            {"model": name, "figures": found, "golden": list(scorer.golden_values()), "scorer": scorer.record()},
        )
        print(f"{name}: {found}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python -m voxgate.models.train.worn FOLDER OUT [MODEL...]")
    torch.set_num_threads(1)
    train_all(Path(sys.argv[1]), Path(sys.argv[2]), names=tuple(sys.argv[3:]) or tuple(MODELS))
