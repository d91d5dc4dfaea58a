"""The experiment behind "When to decode": fifty real commands, four strategies, and where the recogniser must be refused.

    voxgate bench run words --data DIR --out DIR

The commands are read-only material: nothing that ships is trained or thresholded on them.
"""

from __future__ import annotations

import csv
import functools
import importlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.bench.inputs import RECOGNISER, inputs_of
from voxgate.bench.record import Progress, Record
from voxgate.bench.words_measures import (
    Item,
    accuracy,
    edits,
    kept_words,
    quantiles,
    said_words,
    span_differences,
    sums,
)
from voxgate.bench.words_strategies import STRATEGIES, Driver, Outcome
from voxgate.calib.clips import read_mono
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats, Recogniser, Word
from voxgate.models.runtime import package_file
from voxgate.models.settings import FRAME, RATE
from voxgate.models.vad import Vad
from voxgate.models.words.moonshine import DECODER, FOLDER, PACKAGE, MoonshineRecogniser

SETS = ("coffee-commands", "lombard-grid-commands", "librispeech-other")
EACH = 25
"""Items of each set."""
SIDE_SECONDS = 0.5
FLOOR_DBFS = -75.0
"""Level of the noise around and under a command: digital silence is no room."""
LONGEST_READ_SECONDS = 25.0
NOISE_STRETCHES = 60
NOISE_SECONDS = (0.6, 1.2, 2.4, 4.8)
HEARD_AS_SPEECH = ("babble", "ISTS")
"""Noise files made of voices: kept apart."""
LEAST_FRAMES = 8
"""Speech frames (0.26 s) from which a stretch counts as detected speech."""
THRESHOLDS = (-0.5, -0.6, -0.7, -0.8, -0.9, -1.0, -1.2, -1.5)
GRID_WORDS = (
    *"bin lay place set blue green red white at by in with again now please soon".split(),  # noqa: SIM905 - readable
    *"zero one two three four five six seven eight nine".split(),  # noqa: SIM905 - readable
    *"abcdefghijklmnopqrstuvwxyz",
)
"""The closed grammar of the Lombard commands."""
CONTRAST = 120
"""Clips of each set, at most, for the vocabulary's effect."""


def run(data: Path, out: Path, seed: int) -> dict[str, Any]:
    """Run the experiment over the folder of real sets; writes `predictions.jsonl` and `summary.json` into `out`.

    An interrupted run goes on where it stopped. Raises InputError when `data` lacks a set.
    """
    items = choose(data, seed)
    recogniser, vad = MoonshineRecogniser(), Vad()
    settings = {
        "benchmark": "words", "seed": seed, "each": EACH, "side_seconds": SIDE_SECONDS, "floor_dbfs": FLOOR_DBFS,
        "strategies": [strategy.name for strategy in STRATEGIES],
        **inputs_of(data, ("MANIFEST.tsv", "noise", *SETS), (RECOGNISER,)),
    }  # fmt: skip
    with Record(out, settings) as record:
        progress = Progress("words", len(items) + 4)
        for item in items:
            if item.id not in record.done:
                record.prediction(item.id, group=item.group, **_item(item, recogniser, vad, seed, record))
            progress.step()
        if "refusal" not in record.done:
            record.prediction("refusal", group="refusal", **_refusal(data, items, recogniser, vad, seed))
        progress.step()
        for id, row in _vocabulary_rows(data, items, seed):
            if id not in record.done:
                record.prediction(id, group="vocabulary", **row())
            progress.step()
        groups: dict[str, list[dict[str, Any]]] = {}
        for prediction in record.predictions:
            groups.setdefault(prediction["group"], []).append(prediction)
        (refusal,) = groups.pop("refusal")
        vocabulary = {row["id"]: row for row in groups.pop("vocabulary")}
        figures = {group: _figures(rows) for group, rows in sorted(groups.items())}
        return record.summary({"groups": figures, "refusal": _refusal_figures(refusal), "vocabulary": vocabulary})


def choose(data: Path, seed: int) -> list[Item]:
    """The seeded choice: 25 coffee commands, 25 Lombard commands, and all read clips of 10 to 25 s up to 10."""
    rows = _manifest(data)
    generator = np.random.default_rng(seed)
    items: list[Item] = []
    for group, count in (("coffee-commands", EACH), ("lombard-grid-commands", EACH), ("librispeech-other", 10)):
        have = [row for row in rows if row["set"] == group and (data / row["path"]).is_file()]
        if group == "librispeech-other":
            have = [row for row in have if 10.0 <= float(row["seconds"]) <= LONGEST_READ_SECONDS]
        if len(have) < count and group != "librispeech-other":
            raise InputError(
                f"{data}: {len(have)} clips of {group}, {count} are needed; give the folder of the real sets"
            )
        for index in sorted(generator.choice(len(have), min(count, len(have)), replace=False)):
            items.append(_as_item(data, have[index]))
    return items


def _as_item(data: Path, row: dict[str, str]) -> Item:
    group, label = row["set"], row["text_or_label"]
    text = label.split("] ", 1)[1] if group == "lombard-grid-commands" else None
    slots = tuple(json.loads(label)["slots"].values()) if group == "coffee-commands" else ()
    return Item(row["path"], group, data / row["path"], text, slots)


def _manifest(data: Path) -> list[dict[str, str]]:
    try:
        with (data / "MANIFEST.tsv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    except OSError as error:
        raise InputError(f"{data}: no MANIFEST.tsv there; give the folder of the real sets") from error


def _item(item: Item, recogniser: MoonshineRecogniser, vad: Vad, seed: int, record: Record) -> dict[str, Any]:
    clip = read_mono(item.path)
    side = int(SIDE_SECONDS * RATE)
    generator = np.random.default_rng([seed, *item.id.encode()])
    floor = generator.standard_normal(len(clip) + 2 * side) * 10 ** (FLOOR_DBFS / 20)
    samples = floor.astype(np.float32)
    samples[side : side + len(clip)] += clip
    record.segment(
        item.id, samples, voice=item.group, rate=RATE, normalisation="none", room="as recorded",
        boundary=(SIDE_SECONDS, SIDE_SECONDS + len(clip) / RATE),
    )  # fmt: skip
    vad.reset()
    frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
    probabilities = [vad(frame) for frame in frames]
    speech = np.flatnonzero(np.array(probabilities) >= 0.5)
    speech_end = float(speech[-1] + 1) * FRAME / RATE if len(speech) else None
    begun = time.process_time()
    one_shot = recogniser.decode(samples)
    one_shot_cpu = time.process_time() - begun
    known = recogniser.align(clip, item.text) if item.text else []
    truth = [replace(word, t0=_moved(word.t0), t1=_moved(word.t1)) for word in known]
    outcomes = {
        strategy.name: _scores(
            Driver(samples, probabilities, recogniser, strategy).run(), item, one_shot.text, truth, speech_end
        )
        for strategy in STRATEGIES
    }
    return {
        "seconds": len(samples) / RATE,
        "reference": item.text,
        "one_shot": {"text": one_shot.text, "mean_logprob": one_shot.mean_logprob, "cpu_seconds": one_shot_cpu,
                     **accuracy(one_shot.text, item)},
        "library": accuracy(text, item) | {"text": text} if (text := library_text(samples)) is not None else None,
        "strategies": outcomes,
    }  # fmt: skip


def _vocabulary_rows(
    data: Path, items: Sequence[Item], seed: int
) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """What a vocabulary does to each set: all of it without, then with the words of the Lombard grammar."""
    plain, leaning = MoonshineRecogniser(), MoonshineRecogniser(GRID_WORDS)
    rows = _manifest(data)
    generator = np.random.default_rng([seed, 2])
    for group in ("lombard-grid-commands", "coffee-commands", "librispeech-other"):
        have = [row for row in rows if row["set"] == group and (data / row["path"]).is_file()]
        chosen = sorted(generator.choice(len(have), min(CONTRAST, len(have)), replace=False))
        clips = [_as_item(data, have[index]) for index in chosen]
        yield f"vocabulary/{group}", functools.partial(_vocabulary_row, clips, plain, leaning)


def _vocabulary_row(clips: Sequence[Item], plain: Recogniser, leaning: Recogniser) -> dict[str, Any]:
    rows: dict[str, list[dict[str, int]]] = {"plain": [], "leaning": []}
    cpu = {"plain": 0.0, "leaning": 0.0}
    changed = words = more = 0
    for clip in clips:
        samples = read_mono(clip.path)[: int(LONGEST_READ_SECONDS * RATE)]
        said: dict[str, list[str]] = {}
        for name, recogniser in (("plain", plain), ("leaning", leaning)):
            begun = time.process_time()
            text = recogniser.decode(samples).text
            cpu[name] += time.process_time() - begun
            said[name] = said_words(text)
            rows[name].append(accuracy(text, clip))
        changed += edits(said["plain"], said["leaning"])
        words += len(said["plain"])
        more += sum(max(0, said["leaning"].count(word) - said["plain"].count(word)) for word in GRID_WORDS)
    return {
        "clips": len(clips), "plain": sums(rows["plain"]), "leaning": sums(rows["leaning"]), "cpu_seconds": cpu,
        "words": words, "words_changed": changed, "vocabulary_words_more": more,
    }  # fmt: skip


def _moved(seconds: float | None) -> float | None:
    return None if seconds is None else seconds + SIDE_SECONDS


def _scores(
    outcome: Outcome, item: Item, one_shot: str, truth: Sequence[Word], speech_end: float | None
) -> dict[str, Any]:
    text = " ".join(outcome.texts())
    shown = changed = 0
    for utterance in outcome.utterances:
        final = said_words(" ".join(utterance.texts()))
        for words in utterance.shown:
            said = said_words(" ".join(words))
            shown += len(said)
            changed += len(said) - kept_words(said, final)
    last = outcome.utterances[-1] if outcome.utterances else None
    return {
        "text": text,
        "decodes": outcome.decodes,
        "decode_cpu_seconds": outcome.decode_cpu_seconds,
        "align_cpu_seconds": outcome.align_cpu_seconds,
        "longest_decode_seconds": outcome.longest_decode_seconds,
        "utterances": len(outcome.utterances),
        "windowed": sum(bool(utterance.fixed) for utterance in outcome.utterances),
        "words_shown": shown,
        "words_changed": changed,
        "errors_to_one_shot": edits(said_words(one_shot), said_words(text)),
        "words_one_shot": len(said_words(one_shot)),
        "unaligned": sum(word.t0 is None for word in outcome.words()),
        "spans": span_differences(truth, outcome.words()),
        "lag_seconds": last.known_at - speech_end if last is not None and speech_end is not None else None,
        **accuracy(text, item),
    }


_library: Any = None


def library_text(samples: Floats) -> str | None:
    """What the recogniser's own library makes of a clip, for comparison; None where it does not import."""
    global _library
    if _library is None:
        folder = package_file(PACKAGE, *FOLDER, DECODER)
        try:
            library = importlib.import_module(PACKAGE)  # by name: it has no types
        except (ImportError, OSError):
            return None
        _library = library.Transcriber(
            model_path=str(folder.parent) if folder else "", model_arch=library.ModelArch.TINY
        )
    lines = _library.transcribe_without_streaming(samples.tolist(), RATE).lines
    return " ".join(line.text.strip() for line in lines)


def _figures(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    seconds = sum(row["seconds"] for row in rows)
    one_shots = [row["one_shot"] for row in rows]
    library = [row["library"] for row in rows if row["library"] is not None]
    return {
        "clips": len(rows),
        "seconds": seconds,
        "one_shot": {"cpu_share": sum(row["cpu_seconds"] for row in one_shots) / seconds, **sums(one_shots)},
        "library": {"clips": len(library), **sums(library)},
        "strategies": {
            strategy.name: _strategy_figures([row["strategies"][strategy.name] for row in rows], seconds)
            for strategy in STRATEGIES
        },
    }


def _strategy_figures(rows: Sequence[dict[str, Any]], seconds: float) -> dict[str, Any]:
    spans = np.array([pair for row in rows for pair in row["spans"]]).reshape(-1, 2)
    lags = [row["lag_seconds"] for row in rows if row["lag_seconds"] is not None]

    def total(key: str) -> float:
        return float(sum(row[key] for row in rows))

    return {
        "cpu_share_decode": total("decode_cpu_seconds") / seconds,
        "cpu_share_align": total("align_cpu_seconds") / seconds,
        "decodes_per_clip": total("decodes") / len(rows),
        "longest_decode_seconds": max(row["longest_decode_seconds"] for row in rows),
        "words_shown": int(total("words_shown")),
        "changed_share": total("words_changed") / max(total("words_shown"), 1.0),
        "difference_to_one_shot": total("errors_to_one_shot") / max(total("words_one_shot"), 1.0),
        "unaligned_words": int(total("unaligned")),
        "windowed_utterances": int(total("windowed")),
        "span_words": len(spans),
        "span_start_seconds": quantiles(spans[:, 0]),
        "span_end_seconds": quantiles(spans[:, 1]),
        "lag_seconds": quantiles(lags),
        **sums(rows),
    }


def _refusal(data: Path, items: Sequence[Item], recogniser: Recogniser, vad: Vad, seed: int) -> dict[str, Any]:
    """Texts and log-probabilities for stretches without words beside those of whole and cut commands."""
    generator = np.random.default_rng([seed, 1])
    kinds: dict[str, list[list[Any]]] = {"noise": [], "voices": [], "white": [], "commands": [], "cut commands": []}
    sounds = {path: read_mono(path) for path in sorted((data / "noise").rglob("*.flac"))}
    for seconds in NOISE_SECONDS:
        length = int(seconds * RATE)
        long_enough = [path for path, sound in sounds.items() if len(sound) >= length]
        for _ in range(NOISE_STRETCHES):
            path = long_enough[int(generator.integers(len(long_enough)))]
            first = int(generator.integers(len(sounds[path]) - length + 1))
            kind = "voices" if path.stem in HEARD_AS_SPEECH else "noise"
            kinds[kind].append(_heard(recogniser, vad, sounds[path][first : first + length]))
        for _ in range(NOISE_STRETCHES // 6):
            level = 10 ** (float(generator.uniform(-60, -20)) / 20)
            kinds["white"].append(
                _heard(recogniser, vad, (generator.standard_normal(length) * level).astype(np.float32))
            )
    for item in items:
        if item.group == "librispeech-other":
            continue
        clip = read_mono(item.path)
        kinds["commands"].append(_heard(recogniser, vad, clip))
        loud = np.flatnonzero(np.abs(clip) > 0.1 * np.abs(clip).max())
        first = max(0, int(loud[0]) - RATE // 4)
        kinds["cut commands"].append(_heard(recogniser, vad, clip[first : first + int(1.0 * RATE)]))
    return {"heard": kinds}


def _heard(recogniser: Recogniser, vad: Vad, samples: Floats) -> list[Any]:
    """Text, log-probability, and the frames that the speech detector takes for speech."""
    decoded = recogniser.decode(samples)
    vad.reset()
    frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
    return [decoded.text, decoded.mean_logprob, sum(vad(frame) >= 0.5 for frame in frames)]


def _refusal_figures(row: dict[str, Any]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for kind, heard in row["heard"].items():
        for name, rows in ((kind, heard), (f"{kind}, detected", [each for each in heard if each[2] >= LEAST_FRAMES])):
            scores = np.array([score for text, score, _ in rows if text])
            figures[name] = {
                "stretches": len(rows),
                "with_text": len(scores),
                "kept": {f"{threshold:.2f}": int((scores >= threshold).sum()) for threshold in THRESHOLDS},
                "quantiles": [float(q) for q in np.quantile(scores, (0.05, 0.5, 0.95))] if len(scores) else [],
            }
    return figures
