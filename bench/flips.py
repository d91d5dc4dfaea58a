"""Decisions of a speaker network on recordings, for `voxgate export`: which of them does another graph decide otherwise?

Stretches of 0.6 to 2.5 s, clean and with noise at 10 dB, are compared with every enrolled speaker. A plain cosine is decided at
the value at which the float graph errs equally often on both sides, where scores are densest and flips likeliest; where the
model folder is calibrated, its log-likelihood ratio is decided at the shipped threshold too. Enrolment and test go through the
same graph. Inputs of the graph are computed once and kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from voxgate.bench.scenes import TEST_NOISES
from voxgate.calib.clips import read_mono
from voxgate.calib.speaker_trials import add_noise, enrolment_pieces, read_noises
from voxgate.calib.speech import find_speech
from voxgate.calib.splits import calibration_speakers, training_speakers
from voxgate.calib.statistics import cllr, equal_error_rate
from voxgate.device.errors import InputError
from voxgate.export.decisions import Recordings, Scores
from voxgate.models.evidence import Floats
from voxgate.models.settings import FRAME, RATE
from voxgate.models.speaker import CohortScorer, SpeakerModel, centroid_of, unit
from voxgate.models.vad import Vad

LENGTHS_SECONDS = (0.6, 1.0, 1.6, 2.5)
STRETCHES = 3
"""At most so many of one length from one recording; they overlap by half."""
SNR_DB = 10.0
ENROLLED = 3
LEAST_SECONDS = 6.0
TRAINING_SET = "librispeech-train"
TEST_SETS = ("librispeech-other", "lombard-grid-commands")
TRAINING_NOISES = ("speech-commands", "room-silence")


class InputEncoder(Protocol):
    """A speaker encoder that also tells what its graph is fed."""

    shortest_seconds: float

    def inputs(self, samples: Floats) -> Iterable[Floats]:
        """What the graph is fed for a stretch, one array a pass; none where the stretch cannot be embedded."""
        ...


@dataclass(frozen=True, slots=True)
class _Test:
    speaker: int
    seconds: float
    condition: str
    inputs: list[Floats]


class SpeakerTrials:
    """All comparisons among the speakers of one set."""

    def __init__(
        self,
        voices: dict[str, list[Floats]],
        noises: list[Floats],
        encoder: InputEncoder,
        model: SpeakerModel | None,
        seed: int,
    ) -> None:
        """`voices`: the speech of each recording of each speaker, frames with speech joined. From one recording the first part
        is enrolled and the rest tested; from four and more, three are enrolled."""
        self._enrolled: list[list[list[Floats]]] = []
        self._tests: list[_Test] = []
        self._model = model if model is not None and model.calibrated else None
        generator = np.random.default_rng(seed)
        for number, clips in enumerate(voices.values()):
            if len(clips) > ENROLLED:
                enrolled, tested = clips[:ENROLLED], clips[ENROLLED:]
            else:
                enrolled = enrolment_pieces(clips[0])
                tested = [clips[0][sum(piece.size for piece in enrolled) :]]
            self._enrolled.append([list(encoder.inputs(piece)) for piece in enrolled])
            for speech in tested:
                frames = speech[: speech.size // FRAME * FRAME]
                for condition, samples in _conditions(frames, noises, generator):
                    self._add(number, condition, samples, encoder)
        self.facts: dict[str, Any] = {
            "speakers": len(voices),
            "stretches": len(self._tests),
            "lengths_seconds": list(LENGTHS_SECONDS),
            "conditions": sorted({test.condition for test in self._tests}),
            "seed": seed,
        }

    def _add(self, speaker: int, condition: str, samples: Floats, encoder: InputEncoder) -> None:
        for seconds in LENGTHS_SECONDS:
            length = round(seconds * RATE)
            if seconds < encoder.shortest_seconds or samples.size < length:
                continue
            for start in range(0, samples.size - length + 1, length // 2)[:STRETCHES]:
                inputs = list(encoder.inputs(samples[start : start + length]))
                if inputs:
                    self._tests.append(_Test(speaker, seconds, condition, inputs))

    def scores(self, session: Any, like: Sequence[Scores] | None = None) -> list[Scores]:
        """See `Trials.scores`: the cosines of each length, then log-likelihood ratios where the folder is calibrated."""
        centroids = [
            centroid_of([_embedding(session, inputs) for inputs in clips if inputs]) for clips in self._enrolled
        ]
        vectors = [_embedding(session, test.inputs) for test in self._tests]
        same = np.array([test.speaker for test in self._tests])[:, None] == np.arange(len(centroids))
        seconds = np.array([test.seconds for test in self._tests])
        missing = np.full(len(vectors[0]), np.nan, np.float32)
        matrix = np.stack([missing if centroid is None else centroid for centroid in centroids])
        cosines = np.asarray(np.stack(vectors) @ matrix.T, np.float64)  # (stretches, speakers)
        found: list[Scores] = []
        for length in LENGTHS_SECONDS:
            rows = seconds == length
            if rows.any():
                values, yes = cosines[rows].ravel(), same[rows].ravel()
                threshold = like[len(found)].threshold if like is not None else _equal_error_point(values, yes)
                found.append(Scores(f"cosine, {length} s", values, yes, threshold))
        if self._model is not None:
            ratios = self._ratios(self._model, centroids, vectors)
            found.append(
                Scores("log-likelihood ratio", ratios.ravel(), same.ravel(), self._model.calibration.threshold)
            )
        return found

    def figures(self, scores: Scores) -> dict[str, float]:
        """Equal error rate; of likelihood ratios also their cost in bits."""
        known = np.isfinite(scores.values)
        targets, others = scores.values[scores.yes & known], scores.values[~scores.yes & known]
        found = {"eer": round(equal_error_rate(targets, others), 5)}
        if scores.name == "log-likelihood ratio":
            found["cllr_bits"] = round(cllr(targets, others), 5)
        return found

    def _ratios(
        self, model: SpeakerModel, centroids: list[Floats | None], vectors: list[Floats]
    ) -> NDArray[np.float64]:
        ratios = np.full((len(vectors), len(centroids)), np.nan)
        for column, centroid in enumerate(centroids):
            if centroid is None:
                continue
            scorer = CohortScorer(centroid, model.cohort, model.calibration, model.encoder.shortest_seconds)
            for row, (vector, test) in enumerate(zip(vectors, self._tests, strict=True)):
                llr = scorer.score(vector, test.seconds).llr
                ratios[row, column] = np.nan if llr is None else llr
        return ratios


def speaker_recordings(
    data: Path, encoder: InputEncoder, model: SpeakerModel | None, seed: int = 0, limit: int | None = None
) -> Recordings:
    """Recordings under `data`, as what an export needs of them.

    Where `data` holds `librispeech-train`, training speakers calibrate, calibration speakers choose, and the test sets
    beside it report. Else it is taken for folders of speakers: every third calibrates, the others choose, none reports.
    `limit`: at most so many speakers for each. Raises InputError when there are too few.
    """
    if not data.is_dir():
        raise InputError(f"{data}: no folder with recordings; give one with a folder of recordings for each speaker")
    if (data / TRAINING_SET).is_dir():
        names = [path.name for path in (data / TRAINING_SET).iterdir() if path.is_dir()]
        fitting = _read(data / TRAINING_SET, training_speakers(names)[:limit])
        choosing = _read(data / TRAINING_SET, calibration_speakers(names)[:limit])
        noises = _noises(data, TRAINING_NOISES)
    else:
        everybody = _read(data, sorted(path.name for path in data.iterdir() if path.is_dir()))
        fitting = dict(list(everybody.items())[::3][:limit])
        choosing = dict([item for place, item in enumerate(everybody.items()) if place % 3][:limit])
        noises = _noises(data, TRAINING_NOISES)
    if not fitting or len(choosing) < 2:
        raise InputError(
            f"{data}: not enough recordings; at least three speakers, each with a folder of wav or flac files that hold "
            f"{LEAST_SECONDS:g} s of speech together"
        )
    testing = {
        test: SpeakerTrials(voices, _noises(data, TEST_NOISES), encoder, model, seed)
        for test in TEST_SETS
        if (data / test).is_dir() and len(voices := _read(data / test, _folders(data / test)[:limit])) > 1
    }
    return Recordings(
        _feeds(fitting, noises, encoder, seed),
        SpeakerTrials(choosing, noises, encoder, model, seed),
        testing,
    )


def _feeds(voices: dict[str, list[Floats]], noises: list[Floats], encoder: InputEncoder, seed: int) -> list[Floats]:
    """What the graph is fed for the first recording of each voice, in three pieces, clean and with noise by turns."""
    generator = np.random.default_rng(seed)
    found: list[Floats] = []
    for place, clips in enumerate(voices.values()):
        conditions = _conditions(clips[0][: clips[0].size // FRAME * FRAME], noises, generator)
        for piece in enrolment_pieces(conditions[place % len(conditions)][1]):
            found += encoder.inputs(piece)
    return found


def _embedding(session: Any, inputs: list[Floats]) -> Floats:
    """As the encoders do it: the normalised mean over the windows of a stretch; not a number where there is none."""
    name = session.get_inputs()[0].name
    vectors = np.concatenate([session.run(None, {name: array})[0] for array in inputs])
    found = unit(np.mean(vectors, axis=0))
    return np.full(vectors.shape[1], np.nan, np.float32) if found is None else found


def _equal_error_point(values: NDArray[np.float64], yes: NDArray[np.bool_]) -> float:
    """The value from which on to accept, so that both kinds of error are as equal as they get."""
    steps = np.unique(values[np.isfinite(values)])
    rejects = np.searchsorted(np.sort(values[yes]), steps) / max(1, yes.sum())
    accepts = 1 - np.searchsorted(np.sort(values[~yes]), steps) / max(1, (~yes).sum())
    return float(steps[np.argmin(np.abs(rejects - accepts))])


def _conditions(speech: Floats, noises: list[Floats], generator: np.random.Generator) -> list[tuple[str, Floats]]:
    found = [("clean", speech)]
    if noises and speech.size:
        noise = noises[int(generator.integers(len(noises)))]
        everywhere = np.ones(speech.size // FRAME, bool)
        found.append((f"noise, {SNR_DB:g} dB", add_noise(speech, noise, SNR_DB, everywhere, generator)))
    return found


def _folders(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def _read(folder: Path, speakers: Sequence[str]) -> dict[str, list[Floats]]:
    """The speech of each recording of each speaker, up to `ENROLLED` of them joined; speakers with too little are left out."""
    vad = Vad()
    found: dict[str, list[Floats]] = {}
    for speaker in speakers:
        clips = []
        for path in sorted((folder / speaker).iterdir()):
            if path.suffix not in (".flac", ".wav"):
                continue
            clips.append(find_speech(read_mono(path), vad).voiced)
        if len(clips) <= ENROLLED:
            clips = [np.concatenate(clips)] if clips else []
        if sum(clip.size for clip in clips) >= LEAST_SECONDS * RATE:
            found[speaker] = clips
    return found


def _noises(data: Path, folders: Sequence[str]) -> list[Floats]:
    here = [data / "noise" / name for name in folders if (data / "noise" / name).is_dir()]
    return read_noises(here) if here else []
