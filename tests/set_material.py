"""What small sets of the benchmark are built of in tests: two people's recordings of a third of a second, and responses of the
same layout as measured ones."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import soundfile

RATE = 16_000
PEOPLE = {"ana": 190.0, "ben": 105.0}


def record(folder: Path, texts: Path) -> None:
    """Every person says every text of a set's `texts.tsv`: harmonics of their own pitch, another colour for every text."""
    for person, hertz in PEOPLE.items():
        (folder / person).mkdir(parents=True, exist_ok=True)
        for line in texts.read_text(encoding="utf-8").splitlines():
            name = line.split("\t")[0]
            draw = np.random.default_rng(zlib.crc32(f"{person} {name}".encode()))
            time = np.arange(round(draw.uniform(0.3, 0.4) * RATE)) / RATE
            sound = sum(draw.uniform(0.1, 1) / n * np.sin(2 * np.pi * n * hertz * time) for n in range(1, 25))
            sound *= 0.6 + 0.4 * np.sin(2 * np.pi * draw.uniform(4, 8) * time)
            sound += draw.normal(0, 0.05, len(time))
            silence = np.zeros(RATE // 20)
            samples = np.concatenate((silence, sound / np.abs(sound).max() * 0.5, silence))
            soundfile.write(folder / person / f"{name}.wav", samples, RATE, subtype="PCM_16")


def measure(folder: Path) -> Path:
    """A room and an anechoic chamber with eight microphones: the mouth is loud at two of them, others are not."""
    loud = np.array([0.15, 0.3, 0.5, 1, 1, 0.5, 0.3, 0.15])
    for number, (name, gains, tail) in enumerate(
        [
            ("anechoic/mouth_nearfield_atf", loud, 0.0),
            *((f"anechoic/far_az{degrees:03d}_el000", np.ones(8), 0.0) for degrees in (0, 90, 120)),
            ("office/mouthSimulator", loud, 0.005),
            *((f"office/{place}Lsp", np.ones(8), 0.25) for place in ("left", "center", "right")),
        ]
    ):
        draw = np.random.default_rng(number)
        response = draw.normal(0, 1, (RATE // 8, 8)) * np.exp(-np.arange(RATE // 8) / (0.02 * RATE))[:, None] * tail
        response[:100] = 0
        response[100] += gains
        path = folder / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, response * 0.3, RATE, subtype="FLOAT")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a set by name; of its facts without the commit, which may change between two builds."""
    out = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    facts = json.loads(out["set.json"])
    del facts["git_commit"]
    return out | {"set.json": json.dumps(facts).encode()}
