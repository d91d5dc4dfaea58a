"""Makes the clips beside it with Kokoro voices (Apache-2.0; needs the `voices` extra): python tests/data/commands/make.py"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile

from voxgate.bench.voices import FLOOR_DBFS, MARGIN_SECONDS, say
from voxgate.models.settings import RATE

CLIPS = {
    "mended-1": ("set red at I five soon", "alpha", 1.0),
    "mended-2": ("set red in M two please", "0.7 kumo + 0.3 gongitsune", 1.3),
    "mended-3": ("set green by R nine soon", "0.7 kumo + 0.3 gongitsune", 1.0),
    "other-number": ("lay blue in Q ten please", "0.6 tebukuro + 0.4 alpha", 1.15),
    "broken-off": ("set white with H zero", "0.7 kumo + 0.3 gongitsune", 1.3),
}
"""Name -> words, voice and pace."""


def main() -> None:
    margin = np.zeros(round(MARGIN_SECONDS * RATE), np.float32)
    for seed, (name, (text, voice, speed)) in enumerate(CLIPS.items()):
        samples = np.concatenate([margin, say(text, voice, speed=speed), margin])
        noise = np.random.default_rng(seed).standard_normal(len(samples), np.float32) * 10 ** (FLOOR_DBFS / 20)
        soundfile.write(Path(__file__).parent / f"{name}.flac", samples + noise, RATE, format="FLAC", subtype="PCM_16")


if __name__ == "__main__":
    main()
