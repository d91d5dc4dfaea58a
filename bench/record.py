"""The record of a benchmark run: what went in, what came out, and figures with intervals.

A record is a folder: `manifest.jsonl` (one segment a line: voice, duration, normalisation, peak, boundary, room, hash),
`predictions.jsonl` (one item a line, written as it falls, so that an interrupted run goes on where it stopped) and
`summary.json` (seeds, versions, git commit, counts, intervals).
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.metadata
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import numpy as np
from numpy.typing import NDArray

from voxgate.device.errors import InputError
from voxgate.models.runtime import write_json

PACKAGES = ("voxgate", "numpy", "scipy", "onnxruntime", "soundfile", "soxr")

MOST_WEIGHTS = 4_000_000
"""Weights held at once when an interval is drawn: more clusters only take longer."""
FEWEST_APART = 5
"""Clusters that must hold something else before resampling alone is believed: of fewer it draws the same few over and over."""


def sha256_of_samples(samples: NDArray[np.float32]) -> str:
    """Hash of float32 samples as they lie in memory, little-endian."""
    return hashlib.sha256(np.ascontiguousarray(samples, "<f4").tobytes()).hexdigest()


class Record:
    """A record folder, open for writing. Use as a context manager.

    `settings` are what decides the items (seed, data, limits): a folder begun with others is refused, since its items
    would not be those of this run. `done` holds the ids already predicted; `prediction` of such an id raises ValueError.
    `settle`: gives the settings whole where some take long to find. It is called when the folder is locked and what
    `settings` knows before did not have it refused.
    Raises InputError for a folder that another run is writing to, that cannot be written or whose files are damaged.
    """

    def __init__(self, out: Path, settings: dict[str, Any], settle: Callable[[], dict[str, Any]] | None = None) -> None:
        self.out = out
        self.settings = json.loads(json.dumps(settings))
        self._lock = locked(out)
        try:
            marker = out / "settings.json"
            found = _settings(marker) if marker.is_file() else None
            other = InputError(f"{out}: holds a run with other settings; give another --out or delete it")
            if settle is not None:
                if found is not None and not _holds(found, self.settings):
                    raise other
                self.settings = json.loads(json.dumps(settle()))
            if found is not None:
                if found != self.settings:
                    raise other
            else:
                write_json(marker, self.settings)
            self.predictions = _read_lines(out / "predictions.jsonl")
            self.done = {item["id"] for item in self.predictions}
            self._segments = {item["id"] for item in _read_lines(out / "manifest.jsonl")}
            self._manifest = (out / "manifest.jsonl").open("a", encoding="utf-8")
            self._predictions = (out / "predictions.jsonl").open("a", encoding="utf-8")
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._manifest.close()
        self._predictions.close()
        self._lock.close()

    def segment(
        self,
        id: str,
        samples: NDArray[np.float32],
        *,
        voice: str,
        rate: int,
        normalisation: str,
        boundary: tuple[float, float],
        room: str,
        **more: Any,
    ) -> None:
        """Describe one segment of sound, once; a segment that is already there is left alone."""
        if id in self._segments:
            return
        self._segments.add(id)
        _write_line(
            self._manifest,
            {
                "id": id,
                "voice": voice,
                "duration": round(len(samples) / rate, 4),
                "normalisation": normalisation,
                "peak": round(float(np.abs(samples).max(initial=0)), 5),
                "boundary": [round(side, 4) for side in boundary],
                "room": room,
                "sha256": sha256_of_samples(samples),
                **more,
            },
        )

    def prediction(self, id: str, **values: Any) -> None:
        """Add one prediction and flush it."""
        if id in self.done:
            raise ValueError(f"{id} is already in {self.out}")
        self.done.add(id)
        item = json.loads(json.dumps({"id": id, **values}, allow_nan=False))
        self.predictions.append(item)
        _write_line(self._predictions, item)

    def segments_of(self, manifest: Path) -> None:
        """Take over the lines of another manifest whose segments are not here yet."""
        for line in manifest.read_text(encoding="utf-8").split("\n"):
            if line and (id := json.loads(line)["id"]) not in self._segments:
                self._segments.add(id)
                self._manifest.write(line + "\n")
        self._manifest.flush()

    def forget(self, which: Callable[[dict[str, Any]], bool] = lambda item: True) -> None:
        """Drop predictions, so that their items are measured again: all, where a run cannot go on from its middle, or some."""
        kept = [item for item in self.predictions if not which(item)]
        if len(kept) == len(self.predictions):
            return
        path = self.out / "predictions.jsonl"
        temporary = path.with_name(path.name + ".part")
        with temporary.open("w", encoding="utf-8") as file:
            for item in kept:
                _write_line(file, item)
        self._predictions.close()
        temporary.replace(path)
        self._predictions = path.open("a", encoding="utf-8")
        self.predictions[:] = kept
        self.done = {item["id"] for item in kept}

    def summary(self, figures: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Write `summary.json` and return what it holds."""
        whole = {
            "settings": self.settings,
            "versions": versions(),
            "git_commit": git_commit(),
            "counts": {"segments": len(self._segments), "predictions": len(self.predictions)},
            "figures": figures,
            **more,
        }
        write_json(self.out / "summary.json", whole)
        return whole


def _write_line(file: Any, item: dict[str, Any]) -> None:
    file.write(json.dumps(item, ensure_ascii=False, allow_nan=False) + "\n")
    file.flush()


def locked(out: Path) -> TextIO:
    """The folder, made, and its lock, which ends with the file or the process. Raises InputError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("a", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror}); give another folder as --out") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise InputError(f"{out}: another run is writing here; wait for it or give another --out") from error
    return lock


def _settings(marker: Path) -> dict[str, Any]:
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("no settings in it")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{marker}: damaged ({error}); give another --out or delete {marker.parent}") from error
    return found


def _holds(found: Any, known: Any) -> bool:
    """Whether settings have all that is known of them."""
    if isinstance(found, dict) and isinstance(known, dict):
        return all(name in found and _holds(found[name], value) for name, value in known.items())
    return bool(found == known)


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """Items of a JSONL file, the first of each id. A last line that was cut off by an interruption, and items that are there
    twice, are dropped from the file too. Raises InputError for any other line that is no item."""
    if not path.is_file():
        return []
    whole = path.read_bytes()
    found: dict[str, tuple[bytes, dict[str, Any]]] = {}
    for number, line in enumerate(whole.split(b"\n")[:-1], 1):
        try:
            item = json.loads(line.decode("utf-8"))
            if not isinstance(item, dict) or not isinstance(item.get("id"), str):
                raise ValueError("no id")
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}, line {number}: not an item ({error}); delete the line to have it measured again"
            ) from error
        found.setdefault(item["id"], (line + b"\n", item))
    kept = b"".join(line for line, _ in found.values())
    if kept != whole:
        temporary = path.with_name(path.name + ".part")
        temporary.write_bytes(kept)
        temporary.replace(path)
    return [item for _, item in found.values()]


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def git_commit() -> str | None:
    """Commit of the checkout that this code runs from, with `+changes` when the tree differs; None outside of one."""
    root = Path(__file__).resolve().parent.parent
    try:
        commit = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
        dirty = subprocess.run(
            ["git", "-C", str(root), "status", "--porcelain"], capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return commit + ("+changes" if dirty else "")


def clustered_interval(
    values: Sequence[float] | NDArray[np.floating],
    *clusters: Sequence[Hashable],
    seed: int,
    draws: int = 2000,
    level: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> dict[str, float | int | list[int]]:
    """Mean of `values` with a percentile bootstrap interval clustered over one or more groupings.

    Each draw resamples every grouping's clusters with replacement and weighs an item by the product of how often its
    clusters were drawn (the pigeonhole bootstrap of Owen, 2007, for crossed groupings; the plain cluster bootstrap for
    one). Returns `mean`, `low`, `high`, `count` and `clusters` (count of each grouping). An interval from few clusters is
    rough; the counts say so.

    Where all or nearly all came out alike resampling tells next to nothing. Let n be the clusters of the smallest grouping
    that has several: while fewer than `FEWEST_APART` of them hold anything but one value, the interval reaches at least as
    far towards the other values as if all n were alike, which is that of Clopper and Pearson (1934) for n of n: a share
    `1 - ((1 - level) / 2) ** (1 / n)` of them may be anything within `bounds`. For 95 % that is some 3.7 / n; one-sided it is
    the rule of three (Hanley and Lippman-Hand, 1983). So the few misses of a nearly perfect result never make its bound better
    than none would, and each more leaves it or lowers it; from `FEWEST_APART` clusters on their spread is known well enough,
    and the bound may be better again. One cluster a grouping gives no interval at all, which is written as the whole of
    `bounds`. Raises ValueError for no values or groupings of another length.
    """
    numbers = np.asarray(values, np.float64)
    if not len(numbers) or not clusters or any(len(group) != len(numbers) for group in clusters):
        raise ValueError("values and clusters need one entry an item, and at least one")
    counts, index = [], []
    for group in clusters:
        places: dict[Hashable, int] = {}
        index.append(np.array([places.setdefault(name, len(places)) for name in group]))
        counts.append(len(places))
    tail = (1 - level) / 2
    if numbers.min() < numbers.max():
        low, high = np.quantile(_resampled_means(numbers, index, counts, seed, draws), (tail, 1 - tail))
    else:
        low = high = numbers[0]
    several = [place for place, count in enumerate(counts) if count > 1]
    if several:
        fewest = min(several, key=lambda place: counts[place])
        others = 1 - tail ** (1 / counts[fewest])
        for value in _all_but_few(numbers, index[fewest], counts[fewest]):
            # Towards a bound that the value is at itself nothing can depart from it.
            if bounds[0] < value <= bounds[1]:
                low = min(low, value + others * (bounds[0] - value))
            if bounds[0] <= value < bounds[1]:
                high = max(high, value + others * (bounds[1] - value))
    else:
        low, high = min(low, bounds[0]), max(high, bounds[1])
    return {
        "mean": float(numbers.mean()),
        "low": float(low),
        "high": float(high),
        "count": len(numbers),
        "clusters": counts,
    }


def _all_but_few(numbers: NDArray[np.float64], place: NDArray[np.intp], count: int) -> list[float]:
    """The values that all of `count` clusters but fewer than `FEWEST_APART` hold alone."""
    least, most = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(least, place, numbers)
    np.maximum.at(most, place, numbers)
    alone = least[least == most]
    return [float(value) for value in np.unique(numbers) if count - np.count_nonzero(alone == value) < FEWEST_APART]


@functools.lru_cache(maxsize=16)
def _drawn(counts: tuple[int, ...], seed: int, draws: int) -> list[NDArray[np.int32]]:
    """How often each cluster of each grouping is drawn. Kept, since many figures rest on as many clusters each."""
    generator = np.random.default_rng(seed)
    return [generator.multinomial(count, np.full(count, 1 / count), size=draws).astype(np.int32) for count in counts]


def _resampled_means(
    numbers: NDArray[np.float64], index: Sequence[NDArray[np.intp]], counts: Sequence[int], seed: int, draws: int
) -> NDArray[np.float64]:
    """Mean of the items of each draw. Items of the same clusters always weigh the same, so they are summed once."""
    drawn = _drawn(tuple(counts), seed, draws)
    together, place = np.unique(np.ravel_multi_index(tuple(index), tuple(counts)), return_inverse=True)
    values, sizes = np.bincount(place, numbers), np.bincount(place)
    step = max(1, MOST_WEIGHTS // len(together))
    sums = []
    for start in range(0, draws, step):
        weights = np.ones((min(step, draws - start), len(together)))
        for each, places_of in zip(drawn, np.unravel_index(together, tuple(counts)), strict=True):
            weights *= each[start : start + step, places_of]
        sums.append((weights @ values, weights @ sizes))
    whole, total = (np.concatenate(parts) for parts in zip(*sums, strict=True))
    means: NDArray[np.float64] = whole[total > 0] / total[total > 0]
    return means


class Progress:
    """A line on stderr every few seconds: how far, how fast. `step` when an item is done."""

    def __init__(self, what: str, total: int, every_seconds: float = 5.0) -> None:
        self.what, self.total, self.every_seconds = what, total, every_seconds
        self.count = 0
        self._start = self._last = time.monotonic()

    def step(self) -> None:
        self.count += 1
        now = time.monotonic()
        if now - self._last >= self.every_seconds or self.count == self.total:
            self._last = now
            left = (now - self._start) / self.count * (self.total - self.count)
            percent = 100 * self.count // max(self.total, 1)
            print(
                f"{self.what}: {self.count}/{self.total} ({percent} %), {left:.0f} s left", file=sys.stderr, flush=True
            )
