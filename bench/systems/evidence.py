"""Evidence of single cues over the stretches of an item: level, level spread, voice, nearness. Extracted once, then read.

Everything but nearness depends on the sound alone. Nearness depends on who is enrolled as well, and its rows take a quarter of
a megabyte a second on eight microphones, so its scores are kept instead of them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.bench.items import Item
from voxgate.bench.systems.outcome import Span
from voxgate.bench.systems.sessions import Sessions, speaker_facts
from voxgate.calib.clips import read_clip
from voxgate.calib.speech import background_power, find_speech, ratio_db
from voxgate.models.distance import wearer_judge
from voxgate.models.evidence import Floats, SpeakerEncoder
from voxgate.models.settings import FRAME, INITIATOR_SECONDS, RATE
from voxgate.models.signature import SPREAD_BANDS
from voxgate.models.spatial import LEAST_SHARE, cross_power_rows, powers
from voxgate.models.speaker import centroid_of
from voxgate.models.turns import STEP_FRAMES, WINDOW_FRAMES
from voxgate.models.vad import Vad, vad_session

FRAME_SECONDS = FRAME / RATE
LEAST_POWER = 1e-12
QUIET_FRAMES = 5
"""Frames without speech that a noise is measured on; with fewer it is unknown."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one stretch of an item shows. `spread_db` None on one microphone. `voice`: mean d-vector of its windows, None where
    there is too little speech; `before`: the same of the first 2 s of speech before it, `before_seconds` long."""

    t0: float
    t1: float
    speech_seconds: float
    level_dbfs: float | None
    spread_db: float | None
    snr_db: float | None
    voice: Floats | None
    before: Floats | None
    before_seconds: float


@dataclass(frozen=True, slots=True)
class Heard:
    """An item's sound as evidence reads it: `samples` (n, channels) and where they hold `speech`, a value a frame."""

    samples: Floats
    speech: Mask
    recogniser: int
    mics: tuple[int, ...]

    def frames(self, span: Span) -> slice:
        """Frames that a stretch touches."""
        first = max(0, math.floor(span[0] / FRAME_SECONDS))
        return slice(first, min(len(self.speech), max(first + 1, math.ceil(span[1] / FRAME_SECONDS))))

    def spoken(self, part: slice) -> NDArray[np.intp]:
        return np.asarray(part.start + np.flatnonzero(self.speech[part]), np.intp)

    def by_frame(self, channel: int) -> Floats:
        """(frames, 512) of one channel."""
        return self.samples[: len(self.speech) * FRAME, channel].reshape(-1, FRAME)

    def blocks(self, chosen: slice | NDArray[np.intp]) -> Floats:
        """(frames, 512, microphones) of some frames."""
        whole = self.samples[: len(self.speech) * FRAME].reshape(len(self.speech), FRAME, -1)
        return np.ascontiguousarray(whole[chosen][:, :, list(self.mics)])

    @property
    def quiet(self) -> NDArray[np.intp]:
        """Frames that hold no speech, and have none within 100 ms."""
        return np.flatnonzero(~(np.convolve(self.speech, np.ones(7), mode="same") > 0))


def hear(sessions: Sessions, item: Item) -> Heard:
    """Read an item's sound, and find its speech."""
    array = sessions.array(item)
    samples = read_clip(sessions.sound(item)).samples
    speech = find_speech(np.ascontiguousarray(samples[:, array.recogniser]), Vad(_detector()))
    return Heard(samples, speech.mask, array.recogniser, array.mics or (array.recogniser,))


@functools.cache
def _detector() -> Any:
    return vad_session()


def stretches(sessions: Sessions, item: Item, spans: Sequence[Span]) -> list[Stretch]:
    """What each of some stretches shows, from the cache where it is there."""
    key = sessions.cache.key(
        "stretches",
        **sessions.what(item),
        spans=[list(span) for span in spans],
        speaker=speaker_facts(sessions.float_speaker),
    )
    kept = sessions.cache.load(key)
    if kept is None:
        found = _extract(hear(sessions, item), spans, sessions.extractors.speaker.encoder) if spans else []
        facts = [{name: value for name, value in asdict(one).items() if name not in _VECTORS} for one in found]
        vectors = {
            f"{name}-{number}": vector
            for number, one in enumerate(found)
            for name in _VECTORS
            if (vector := getattr(one, name)) is not None
        }
        sessions.cache.save(key, facts, vectors)
        return found
    facts, arrays = kept
    return [
        Stretch(**one, voice=arrays.get(f"voice-{number}"), before=arrays.get(f"before-{number}"))
        for number, one in enumerate(facts)
    ]


_VECTORS = ("voice", "before")


def nearness(sessions: Sessions, item: Item, spans: Sequence[Span]) -> list[float | None]:
    """Probability that each stretch is near, by the judge of the item's array and wearer. Raises NotEnrolled."""
    key = sessions.cache.key(
        "near", **sessions.what(item), spans=[list(span) for span in spans], enrolment=sessions.enrolment(item)
    )
    kept = sessions.cache.load(key)
    if kept is None:
        judge = wearer_judge(sessions.array(item), sessions.profile(item))
        heard = hear(sessions, item)
        quiet = heard.quiet
        found: list[float | None] = []
        for span in spans:
            part = heard.frames(span)
            before = quiet[quiet < part.start]
            calm = before if len(before) >= QUIET_FRAMES else quiet
            noise = judge.features(heard.blocks(calm)).mean(axis=0) if len(calm) >= QUIET_FRAMES else None
            found.append(judge.judge(judge.features(heard.blocks(part)), heard.speech[part], noise).p)
        sessions.cache.save(key, found)
        return found
    return list(kept[0])


def _extract(heard: Heard, spans: Sequence[Span], encoder: SpeakerEncoder) -> list[Stretch]:
    mono = heard.by_frame(heard.recogniser)
    noise_power = background_power(np.ascontiguousarray(mono.reshape(-1)), heard.speech)
    found = []
    for span in spans:
        part = heard.frames(span)
        spoken = heard.spoken(part)
        before = heard.spoken(slice(0, part.start))[: round(INITIATOR_SECONDS / FRAME_SECONDS)]
        voiced = mono[spoken].reshape(-1)
        power = float(np.mean(np.square(voiced, dtype=np.float64))) if len(spoken) else 0.0
        found.append(
            Stretch(
                *span,
                speech_seconds=len(spoken) * FRAME_SECONDS,
                level_dbfs=10 * math.log10(power) if power > LEAST_POWER else None,
                spread_db=_spread(heard, spoken) if len(heard.mics) > 1 and power > LEAST_POWER else None,
                snr_db=ratio_db(voiced, noise_power),
                voice=_voice(mono, spoken, encoder),
                before=_voice(mono, before, encoder),
                before_seconds=len(before) * FRAME_SECONDS,
            )
        )
    return found


def _spread(heard: Heard, spoken: NDArray[np.intp]) -> float:
    """Level of the loudest microphone over the softest in dB, 0.5 to 4 kHz, the item's own noise subtracted."""
    power = _band_power(heard, spoken)
    quiet = heard.quiet
    if len(quiet) >= QUIET_FRAMES:
        power = np.maximum(power - _band_power(heard, quiet), LEAST_SHARE * power)
    return float(np.ptp(10 * np.log10(power + 1e-20)))


def _band_power(heard: Heard, frames: NDArray[np.intp]) -> NDArray[np.float64]:
    """Mean power of some frames at each microphone."""
    rows = cross_power_rows(heard.blocks(frames))
    return np.asarray(powers(rows).mean(axis=0, dtype=np.float64)[SPREAD_BANDS].sum(axis=0), np.float64)


def _voice(mono: Floats, spoken: NDArray[np.intp], encoder: SpeakerEncoder) -> Floats | None:
    """d-vector of some speech frames, by the windows of a session's turn."""
    count = len(spoken)
    if count * FRAME_SECONDS < encoder.shortest_seconds:
        return None
    ends = sorted({*range(WINDOW_FRAMES, count + 1, STEP_FRAMES), count})
    windows = [mono[spoken[max(0, end - WINDOW_FRAMES) : end]].reshape(-1) for end in ends]
    return centroid_of([vector for window in windows if (vector := encoder.embed(window)) is not None])
