"""How sure the recogniser is of commands that it gets right, and of others: what the least mean log-probability rests on.

Synthesised commands of the GRID grammar in household noise; nothing measured-only is used, so that a limit may be set here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from voxgate.bench.commands import PARAMETERS, TOOLS
from voxgate.bench.inputs import RECOGNISER, inputs_of
from voxgate.bench.record import Progress, Record
from voxgate.bench.scenes import Noises, generator_for
from voxgate.bench.speaker_material import missing_engine
from voxgate.bench.voices import say
from voxgate.device.errors import InputError
from voxgate.models.deciding import LEAST_MEAN_LOGPROB
from voxgate.models.tools.schema import load_tools
from voxgate.models.tools.understand import understand
from voxgate.models.words.bias import enum_words
from voxgate.models.words.moonshine import MoonshineRecogniser
from voxgate.models.words.pattern import closed_patterns

VOICES = ("alpha", "tebukuro", "kumo", "gongitsune", "nezumi")
COMMANDS = 100
SNRS_DB = (40.0, 10.0, 5.0)
LIMITS = (-0.6, -0.8, -1.0, -1.25, -1.5, -2.0)
SILENCE = np.zeros(4_000, np.float32)


def run(data: Path, out: Path, seed: int) -> dict[str, Any]:
    """Needs the extra `voices`. Returns the summary, also in `out`."""
    tools = load_tools(TOOLS)
    (tool,) = tools
    recogniser = MoonshineRecogniser(enum_words(tools), closed_patterns(tools))
    noises = Noises(data, ("speech-commands",))
    if (engine := missing_engine()) is not None:
        raise InputError(f"benchmark confidence needs {engine}: pip install 'voxgate[voices]'")
    settings = {
        "benchmark": "confidence",
        "seed": seed,
        **inputs_of(data, ("noise/speech-commands",), (RECOGNISER,)),
    }
    with Record(out, settings) as record:
        progress = Progress("confidence", COMMANDS * len(SNRS_DB))
        for number in range(COMMANDS):
            generator = generator_for(seed, "confidence", number)
            said = [str(generator.choice(tool.properties[name]["enum"])) for name in PARAMETERS]
            voice = VOICES[number % len(VOICES)]
            speech = say(" ".join(said), voice, speed=float(generator.uniform(0.9, 1.2)))
            for snr_db in SNRS_DB:
                name = noises.names[int(generator.integers(len(noises.names)))]
                noise = noises.piece(name, len(speech), generator)
                gain = np.sqrt(np.mean(speech**2) / max(float(np.mean(noise**2)), 1e-12)) * 10 ** (-snr_db / 20)
                id = f"{number}/{snr_db:g}"
                if id not in record.done:
                    heard = np.concatenate((SILENCE, speech + noise * np.float32(gain), SILENCE)).astype(np.float32)
                    decoded = recogniser.decode(heard)
                    understood = understand(decoded.text, tools)
                    right = understood.kind == "tool" and list(understood.params.values()) == said
                    record.prediction(
                        id, voice=voice, noise=name, snr_db=snr_db, said=" ".join(said), heard=decoded.text, right=right,
                        mean_logprob=decoded.mean_logprob,
                    )  # fmt: skip
                progress.step()
        scores = {
            kind: np.array([p["mean_logprob"] for p in record.predictions if p["right"] == (kind == "right")])
            for kind in ("right", "not right")
        }
        below = {
            kind: {f"{limit:g}": float(np.mean(values < limit)) for limit in LIMITS} for kind, values in scores.items()
        }
        counts = {kind: len(values) for kind, values in scores.items()}
        return record.summary({"decodes": counts, "share_below": below, "limit_in_force": LEAST_MEAN_LOGPROB})
