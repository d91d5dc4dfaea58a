"""Who else is in a turn: a small model that weighs short stretches of it against the rest, for its words to inherit.

Windows of 1.2 s that follow each other find a second voice once it has filled one. What is shorter hides in the wearer's own
speech around it, above all at the two ends of a turn, where another can go on with a sentence or begin it. So when a turn has
passed everything else and would act, its ends at four lengths and its middle in steps are looked at again: the d-vector against
the authorised speaker's and against the rest of the turn, pitch and spectral envelope. The model says how much more likely
another speaker is than the same one; a word inherits the worst of the stretches that it lies in. Level and pauses are left
out: a bystander may be as loud and as quick as he likes.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats, SpeakerEncoder
from voxgate.models.mel import MelParameters, mel_frames
from voxgate.models.runtime import MOST_TOLERANCE, WEIGHTS
from voxgate.models.settings import FRAME, RATE
from voxgate.models.speaker import centroid_of

CHANGE_FILE = WEIGHTS / "change" / "model.json"
END_FRAMES = (10, 19, 26, 38)
"""Lengths of speech at either end of a turn that are judged: 0.3, 0.6, 0.8 and 1.2 s."""
MIDDLE_FRAMES, MIDDLE_STEP, MOST_MIDDLES = 19, 9, 10
"""Stretches of the middle and their distance, which grows where there would be more of them, though never past their length."""
LEAST_REST_FRAMES = 12
"""Speech (0.4 s) that must be left beside a stretch for a comparison."""
LEAST_FRAMES = MIDDLE_FRAMES + LEAST_REST_FRAMES
"""Shorter turns (below 1.0 s of speech) are not judged: nothing in them is long enough to compare with."""
OVERLAP_FRAMES = 2
"""Stretches that share no more than this are beside each other."""
NEARLY = 0.85
MOST_THRESHOLD_LLR = 10.0
"""A threshold beyond this (either sign) would find nobody, or everybody."""
FEATURES = (
    "to_source", "to_rest", "rest_to_source", "below_others", "no_source",
    "pitch_octaves", "pitch_known", "envelope", "split_gain", "log_seconds", "at_end", "at_start", "snr_db", "rest_seconds",
)  # fmt: skip

Reals = NDArray[np.float64]


class Segment(NamedTuple):
    """Speech frames [first, past) of a turn, counted over its speech frames alone."""

    first: int
    past: int


@dataclass(frozen=True, slots=True)
class Sound:
    """A turn's speech frames (n, 512), joined, and its signal-to-noise ratio."""

    frames: Floats
    snr_db: float | None


def segments(count: int, span: Segment) -> list[Segment]:
    """The stretches of `count` speech frames that are judged; in the middle those that meet `span`.

    Of `LEAST_FRAMES` and the two counts after it up to three frames in the middle stay out (0.1 s); of more, none of the span.
    """
    found = []
    for length in END_FRAMES:
        if length + LEAST_REST_FRAMES <= count:
            found += [Segment(count - length, count), Segment(0, length)]
    length = count - MIDDLE_FRAMES + OVERLAP_FRAMES
    if LEAST_FRAMES <= count < END_FRAMES[2] + MIDDLE_FRAMES - OVERLAP_FRAMES and length not in END_FRAMES:
        # Ends of those lengths share too much to be compared, or leave a gap: the longest that have 0.6 s beside them.
        found += [Segment(count - length, count), Segment(0, length)]
    first, last = MIDDLE_STEP, count - MIDDLE_FRAMES - MIDDLE_STEP
    first, last = max(first, span.first - MIDDLE_FRAMES // 2), min(last, span.past - MIDDLE_FRAMES // 2)
    step = min(MIDDLE_FRAMES, max(MIDDLE_STEP, math.ceil((last - first) / MOST_MIDDLES)))
    places = list(range(first, last + 1, step))
    if places and places[-1] + MIDDLE_FRAMES < min(span.past, count - MIDDLE_FRAMES):
        places.append(last)
    return found + [Segment(place, place + MIDDLE_FRAMES) for place in places]


def evidence(
    sound: Sound,
    encoder: SpeakerEncoder,
    similarity: Callable[[Floats], float | None],
    span: Segment | None = None,
    embedded: Mapping[Segment, Floats] = MappingProxyType({}),
) -> tuple[list[Segment], Reals]:
    """The stretches of a turn and what was measured of each, (stretches, features).

    `similarity`: cosine of a d-vector with the authorised speaker's centroid, None while there is none. `span`: the speech
    frames that matter, all unless told; `embedded`: d-vectors that are known already.
    """
    count = len(sound.frames)
    found = segments(count, span or Segment(0, count))
    mels = np.log(mel_frames(sound.frames.reshape(-1), MelParameters()) + 1e-8)  # (m, 40), 3.125 a frame
    envelope = mels @ _cosines(mels.shape[1])  # (m, 13)
    pitch = pitches(sound.frames)
    vectors = [embedded[s] if s in embedded else _embed(encoder, sound.frames[s.first : s.past]) for s in found]
    grid = [(s, v, similarity(v)) for s, v in zip(found, vectors, strict=True) if v is not None]
    rows, kept = [], []
    for segment, vector, to_source in grid:
        # The rest is heard by what was embedded already: windows beside the stretch.
        beside = [(s, v, c) for s, v, c in grid if _apart(s, segment) and s.past - s.first >= MIDDLE_FRAMES]
        other = centroid_of([v for _, v, _ in beside])
        if other is None:
            continue
        rest_to = similarity(other)
        peers = [c for s, _, c in beside if c is not None and s.past - s.first == MIDDLE_FRAMES]
        to_rest = float(vector @ other)
        row = {
            "to_source": to_rest,
            "to_rest": to_rest,
            "rest_to_source": 1.0,
            "below_others": 0.0,
            "no_source": 1.0,
            **_pitch_step(pitch, segment),
            **_envelope_step(envelope, segment),
            "log_seconds": math.log((segment.past - segment.first) * FRAME / RATE),
            "at_end": float(segment.past == count),
            "at_start": float(segment.first == 0),
            "snr_db": 30.0 if sound.snr_db is None else min(sound.snr_db, 40.0),
            "rest_seconds": min((count - segment.past + segment.first) * FRAME / RATE, 3.0),
        }
        if to_source is not None and rest_to is not None:
            row |= {"to_source": to_source, "rest_to_source": rest_to, "no_source": 0.0}
            row["below_others"] = float(np.mean(peers)) - to_source if peers else 0.0
        kept.append(segment)
        rows.append([row[name] for name in FEATURES])
    return kept, np.array(rows, np.float64).reshape(len(rows), len(FEATURES))


def _apart(one: Segment, other: Segment) -> bool:
    return one.past <= other.first + OVERLAP_FRAMES or one.first >= other.past - OVERLAP_FRAMES


def _embed(encoder: SpeakerEncoder, frames: Floats) -> Floats | None:
    """d-vector of speech frames; less than the encoder takes is said twice or three times."""
    if not len(frames):
        return None
    needed = encoder.shortest_seconds * RATE / FRAME
    return encoder.embed(np.tile(frames.reshape(-1), max(1, math.ceil(needed / len(frames)))))


def pitches(frames: Floats) -> Reals:
    """log2 of the fundamental frequency in Hz of each frame (n, 512), NaN where it is not voiced: the peak of the normalised
    autocorrelation over the frame and the one before, 70 to 400 Hz."""
    pairs = np.concatenate((np.concatenate((frames[:1], frames[:-1])), frames), axis=1).astype(np.float64)
    pairs -= pairs.mean(axis=1, keepdims=True)
    size = pairs.shape[1]
    power = np.abs(np.fft.rfft(pairs, 2 * size, axis=1)) ** 2
    least, most = RATE // 400, RATE // 70
    correlation = np.fft.irfft(power, axis=1)[:, : most + 1]
    overlap = size / (size - np.arange(most + 1))  # undoes the taper of a finite window
    normal = correlation * overlap / np.maximum(correlation[:, :1], 1e-9)
    # Every multiple of a period matches too: the shortest peak that is nearly as high as the highest is the period.
    inner = normal[:, least:]
    peak = inner[:, 1:-1] > np.maximum(inner[:, :-2], inner[:, 2:])
    enough = peak & (inner[:, 1:-1] > NEARLY * inner.max(axis=1, keepdims=True))
    lag = least + 1 + np.argmax(enough, axis=1)
    voiced = enough.any(axis=1) & (normal[np.arange(len(lag)), lag] > 0.5)
    return np.where(voiced, np.log2(RATE / lag), np.nan)


def _pitch_step(pitch: Reals, segment: Segment) -> dict[str, float]:
    inside = pitch[segment.first : segment.past]
    outside = np.concatenate((pitch[: segment.first], pitch[segment.past :]))
    inside, outside = inside[np.isfinite(inside)], outside[np.isfinite(outside)]
    if len(inside) < 3 or len(outside) < 3:
        return {"pitch_octaves": 0.0, "pitch_known": 0.0}
    return {"pitch_octaves": abs(float(np.median(inside) - np.median(outside))), "pitch_known": 1.0}


def _envelope_step(envelope: Reals, segment: Segment) -> dict[str, float]:
    """How far the mean envelope is from the rest's, and what is gained by describing both apart (diagonal Gaussians: Chen and
    Gopalakrishnan, "Speaker, environment and channel change detection", 1998)."""
    first, past = round(segment.first * FRAME / 160), round(segment.past * FRAME / 160)
    inside, outside = envelope[first:past, 1:], np.concatenate((envelope[:first, 1:], envelope[past:, 1:]))
    spread = envelope[:, 1:].var(axis=0) + 1e-3
    distance = float(np.mean((inside.mean(axis=0) - outside.mean(axis=0)) ** 2 / spread))
    count, apart = len(inside) + len(outside), len(inside)
    gain = count * np.log(spread) - apart * np.log(inside.var(axis=0) + 1e-3)
    gain -= (count - apart) * np.log(outside.var(axis=0) + 1e-3)
    return {
        "envelope": math.sqrt(distance),
        "split_gain": float(np.mean(gain)) / count,
    }


@functools.cache
def _cosines(bands: int, count: int = 13) -> Reals:
    """The first columns of an orthonormal cosine transform, (bands, count)."""
    k, n = np.arange(count), np.arange(bands)[:, None]
    table = np.sqrt(2 / bands) * np.cos(np.pi * (n + 0.5) * k / bands)
    table[:, 0] /= np.sqrt(2)
    return np.asarray(table, np.float64)


class Layer(NamedTuple):
    weights: Reals
    bias: Reals


@dataclass(frozen=True, slots=True)
class ChangeModel:
    """Features of a stretch -> log-likelihood ratio another/same speaker. `change` is where words are another's, `doubt` where
    a destructive call is not worth the risk; `facts` holds data, counts and error rates."""

    mean: Reals
    scale: Reals
    layers: tuple[Layer, ...]
    change: float
    doubt: float
    facts: dict[str, Any]

    def llr(self, features: Reals) -> Reals:
        """(stretches, features) -> (stretches,)."""
        value = (features - self.mean) / self.scale
        for number, layer in enumerate(self.layers):
            value = value @ layer.weights + layer.bias
            if number + 1 < len(self.layers):
                value = np.tanh(value)
        return np.asarray(value[:, 0], np.float64)


def worst_of(place: Segment, found: Sequence[Segment], llrs: Sequence[float]) -> float | None:
    """The highest of the ratios of stretches that hold at least half of a word's speech frames, or that a long word fills to
    the half; None without one."""
    half = min(place.past - place.first, MIDDLE_FRAMES) / 2
    held = [
        llr for s, llr in zip(found, llrs, strict=True) if min(s.past, place.past) - max(s.first, place.first) >= half
    ]
    return max(held) if held else None


def load_change_model(sha256: str, path: Path = CHANGE_FILE) -> ChangeModel | None:
    """The model made with the encoder of this sha256; None for any other encoder, whose scores it does not know.

    Raises InputError when the file is damaged.
    """
    if not path.is_file():
        return None
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts["model"]["sha256"] != sha256:
            return None
        if tuple(facts["features"]) != FEATURES:
            raise ValueError("other features")
        model = ChangeModel(
            np.array(facts["mean"], np.float64),
            np.array(facts["scale"], np.float64),
            tuple(
                Layer(np.array(layer["weights"], np.float64), np.array(layer["bias"], np.float64))
                for layer in facts["layers"]
            ),
            float(facts["thresholds"]["change"]),
            float(facts["thresholds"]["doubt"]),
            facts,
        )
        for name in ("change", "doubt"):
            if not abs(getattr(model, name)) <= MOST_THRESHOLD_LLR:  # so written that NaN is refused too
                raise ValueError(f"threshold {name} {getattr(model, name)}")
        _check_golden(model, facts["golden"])
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"{path}: damaged change model ({error}); reinstall voxgate or fit it again") from error
    return model


def _check_golden(model: ChangeModel, golden: Mapping[str, Any]) -> None:
    """Raises ValueError where the model does not give the ratios that its file states for some rows of features."""
    rows, expected = np.array(golden["rows"], np.float64), np.array(golden["llr"], np.float64)
    tolerance = float(golden["tolerance"])
    if not 0 < tolerance <= MOST_TOLERANCE or not len(expected) or rows.shape != (len(expected), len(FEATURES)):
        raise ValueError("golden rows that prove nothing")
    if not np.max(np.abs(model.llr(rows) - expected)) <= tolerance:  # so written that NaN is refused too
        raise ValueError("its golden rows are not reproduced")
