"""Scores of a whole scene before any threshold: how strongly each kind of evidence speaks for a second person in it."""

from __future__ import annotations

import numpy as np

from voxgate.device.arrays import ArrayProfile
from voxgate.models.changes import ChangeModel, Sound, evidence
from voxgate.models.evidence import Floats, NearJudge, SpeakerScorer
from voxgate.models.extractors import Extractors
from voxgate.models.inheriting import WORD_NEAR_FRAMES
from voxgate.models.settings import FRAME, GateSettings
from voxgate.models.speaker import SpeakerModel
from voxgate.models.turns import FRAME_SECONDS, SHARP_FRAMES, WINDOW_FRAMES, Listener, Turn
from voxgate.models.vad import Vad

WINDOW_SECONDS = WINDOW_FRAMES * FRAME_SECONDS


def heard(samples: Floats, array: ArrayProfile, judge: NearJudge, extractors: Extractors) -> Turn | None:
    """The scene's longest turn as a session hears it, never cut where the speaker seems to change; None without one."""
    listener, vad = Listener(GateSettings()), Vad(extractors.vad)
    channels = list(array.mics) or [array.recogniser]
    turns: list[Turn] = []
    for index in range(len(samples) // FRAME):
        frame = samples[index * FRAME : (index + 1) * FRAME]
        mono = np.ascontiguousarray(frame[:, array.recogniser])
        row = judge.features(np.ascontiguousarray(frame[None][:, :, channels]))[0]
        if listener.hear(index, vad(mono), mono, row, frozenset()) and listener.turn is not None:
            listener.turn.step(extractors.speaker.encoder, judge)
        if listener.over:
            turns.append(listener.take())
    if listener.turn is not None:
        turns.append(listener.take())
    return max(turns, key=lambda turn: turn.speech_frames, default=None)


def scores(
    turn: Turn, judge: NearJudge, speaker: SpeakerModel, scorer: SpeakerScorer, model: ChangeModel | None
) -> dict[str, float]:
    """Higher speaks for a second person; kinds that could not judge are left out.

    `windows`: the largest step between neighbouring windows of 1.2 s, as cuts are made by. `source`: how far the least
    favourable of them is from the wearer. `model`: the change model. `distance`: how far from near the worst quarter of a
    second is.
    """
    encoder = speaker.encoder
    found: dict[str, list[float]] = {"windows": [], "source": [], "model": [], "distance": []}

    def differ(a: Floats | None, b: Floats | None) -> float | None:
        return speaker.speakers_differ(a, b, WINDOW_SECONDS, WINDOW_SECONDS)

    found["windows"] = [llr for llr, _ in turn.voice_steps(encoder, differ, at_end=True)]
    for window in turn.whole_windows(encoder):
        seconds = (window.last - window.first + 1) * FRAME_SECONDS
        llr = scorer.score(window.embedding, seconds, turn.snr_db(window.first, window.last)).llr
        if llr is not None:
            found["source"].append(-llr)
    if model is not None:
        positions = turn.speech_positions
        sound = Sound(np.stack([turn.samples[i] for i in positions]), turn.snr_db())
        _, rows = evidence(sound, encoder, lambda vector: scorer.score(vector, encoder.shortest_seconds).similarity)
        if len(rows):
            found["model"] = [float(llr) for llr in model.llr(rows)]
    if judge.shortest_frames <= SHARP_FRAMES:
        for first in range(0, turn.frames - WORD_NEAR_FRAMES, WORD_NEAR_FRAMES // 2):
            llr = turn.near(judge, first, first + WORD_NEAR_FRAMES).llr
            if llr is not None:
                found["distance"].append(-llr)
    return {name: max(values) for name, values in found.items() if values}
