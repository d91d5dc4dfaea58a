"""How surely one voice's must a turn be that founds a session? What each limit costs, on the calibration speakers.

    python -m voxgate.bench.founding --voices DIR/librispeech-train

Their own turns alone, and with half a second or a second of another behind them, as recorded and in a little hiss (35 dB). The
real session and change model with known words, and a judge for which everybody is near. A turn that founds acts at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from voxgate.bench.change_words import TOOLS, KnownWords, Near, words_of
from voxgate.calib.change_material import Person, cut, people
from voxgate.calib.splices import Part, Spliced, render
from voxgate.calib.splits import calibration_speakers
from voxgate.device.arrays import load_array
from voxgate.device.blocks import AudioBlock
from voxgate.device.errors import InputError
from voxgate.models.events import Decision
from voxgate.models.extractors import Extractors, load_extractors
from voxgate.models.session import Session
from voxgate.models.settings import RATE, GateSettings

SEED = 5
LIMITS = (0.0, 0.7, 1.1, 1.6, 2.3, 3.0, 7.0)
SCENES = {0.0: 2, 0.5: 1, 1.0: 1}
"""Of each speaker, by the seconds for which another goes on."""
DRY = np.ones((1, 1), np.float32)


def scenes(persons: list[Person]) -> Iterator[tuple[float, Spliced]]:
    """Seconds of another behind the own voice, and the sound."""
    for place, person in enumerate(persons):
        for tail, count in SCENES.items():
            for number in range(count):
                generator = np.random.default_rng([SEED, place, round(10 * tail), number])
                own = cut(person, float(generator.uniform(*((1.2, 2.5) if tail else (2.2, 3.5)))), generator)
                other = persons[(place + 1 + int(generator.integers(len(persons) - 1))) % len(persons)]
                added = cut(other, tail, generator) if tail else None
                if own is None or (tail and added is None):
                    continue
                parts = [Part("wearer", own, 0.0)]
                if added is not None:
                    parts.append(Part("bystander", added, float(generator.choice((0.0, 0.15)))))
                hiss = generator.standard_normal((9 * RATE, 1)).astype(np.float32)
                yield tail, render(parts, {"wearer": DRY, "bystander": DRY}, {}, hiss, 35.0)


def founds(scene: Spliced, extractors: Extractors, limit: float) -> tuple[bool, bool]:
    """Whether the first turn acts, thus founds the session, and whether it then holds a bystander's words."""
    words = KnownWords(np.ascontiguousarray(scene.samples[:, 0]), words_of(scene.spans))
    settings = GateSettings(initiator_doubt_llr=limit)
    heard = replace(extractors, recogniser=words)
    session = Session(heard, settings, load_array("mono"), TOOLS, source="scene", rate=RATE, judge=Near())
    events = session.push(AudioBlock(scene.samples, RATE, 0)) + session.finish()
    first = next((e for e in events if isinstance(e, Decision) and e.status != "pending"), None)
    if first is None or first.action == "mute":
        return False, False
    begins = min((t0 for who, t0, _ in scene.spans if who == "bystander"), default=np.inf)
    return True, first.t1 > begins + 0.1


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What a limit on founding turns costs")
    parser.add_argument("--voices", type=Path, required=True)
    chosen = parser.parse_args(arguments)
    try:
        names = [path.name for path in chosen.voices.glob("*") if path.is_dir()]
        made = list(scenes(people(chosen.voices, calibration_speakers(names))))
        extractors = load_extractors(None)
    except InputError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    for limit in LIMITS:
        row = []
        for tail in SCENES:
            found = [founds(scene, extractors, limit) for seconds, scene in made if seconds == tail]
            acted, mixed = (sum(column) for column in zip(*found, strict=True))
            row.append(
                f"{mixed} of {len(found)} with {tail:g} s of another" if tail else f"{acted} of {len(found)} own"
            )
        print(f"limit {limit:g}: {', '.join(row)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
