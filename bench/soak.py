"""Hours of speech in one session: memory must stay flat, no sample may be lost, nothing may fail.

Utterances of many people, the wearer's among them, through the measured responses of the 8-microphone glasses: mouth and
loudspeaker places by turns, with pauses, one after the other for `hours`. Nothing is stored; memory is read from the
operating system each ten minutes of sound.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.bench.commands import MODELS
from voxgate.bench.inputs import RECOGNISER, inputs_of
from voxgate.bench.record import Progress, Record
from voxgate.bench.scenes import MOUTH, Responses, at_level, generator_for, speaking_frames, voices
from voxgate.calib.clips import Clip
from voxgate.calib.enrol import enrol
from voxgate.calib.near_scenes import through
from voxgate.device.arrays import load_array
from voxgate.device.blocks import AudioBlock
from voxgate.models.events import Block, Decision, Event, Fault, Summary
from voxgate.models.extractors import load_extractors
from voxgate.models.session import Session
from voxgate.models.settings import RATE, GateSettings
from voxgate.models.tools.schema import load_tools
from voxgate.models.words.moonshine import MoonshineRecogniser

REPORT_SECONDS = 600.0
BLOCK_SECONDS = 0.1
ENROLMENT_CLIPS = 4
END = "end"
"""Id of the line that says what a soak came to: one without it was interrupted."""


def run(data: Path, out: Path, seed: int, hours: float = 3.0) -> dict[str, Any]:
    """Returns the summary, also in `out`; of a soak that is there, its own. An interrupted one is no soak: it begins again."""
    responses = Responses(data)
    room = responses.rooms[0]
    people = voices(data, "librispeech-other")
    wearer = people[0].speaker
    array = load_array("glasses-8")
    extractors = load_extractors(MoonshineRecogniser())
    generator = generator_for(seed, "soak")

    def heard(samples: Any, position: str) -> Any:
        return at_level(through(samples, responses.get(room, position)), speaking_frames(samples))

    own = [voice for voice in people if voice.speaker == wearer]
    clips = [Clip(voice.id, heard(voice.samples, MOUTH), RATE) for voice in own[:ENROLMENT_CLIPS]]
    profile = enrol("wearer", clips, array, extractors.speaker).profile
    counts = {"blocks": 0, "decisions": 0, "acts": 0, "acts_of_others": 0, "faults": 0}
    session = Session(
        extractors,
        GateSettings(),
        array,
        load_tools(None),
        source="soak",
        rate=RATE,
        profile=profile,
        clock=time.process_time,
    )
    total = int(hours * 3600 * RATE)
    position, next_report = 0, 0.0
    spoken: list[tuple[float, bool]] = []  # end of each utterance, and whether the wearer said it at the mouth
    inputs = inputs_of(data, ("glasses-rir", "librispeech-other"), (*MODELS, RECOGNISER))
    with Record(out, {"benchmark": "soak", "seed": seed, "hours": hours, **inputs}) as record:
        if record.predictions and record.predictions[-1]["id"] == END:
            return record.summary(record.predictions[-1]["figures"])
        if record.done:
            print(f"{out}: an interrupted soak, which begins again", file=sys.stderr, flush=True)
            record.forget()
        progress = Progress("soak", int(hours * 6) + 1)
        while position < total:
            voice = people[int(generator.integers(len(people)))]
            places = [MOUTH, *responses.positions(room)]
            place = places[int(generator.integers(len(places)))]
            pause = np.zeros((int(generator.uniform(0.2, 2.0) * RATE), 8), np.float32)
            stretch = np.concatenate((heard(voice.samples, place), pause))
            stretch += generator.standard_normal(stretch.shape).astype(np.float32) * 1e-4
            spoken = [*spoken[-20:], ((position + len(stretch)) / RATE, voice.speaker == wearer and place == MOUTH)]
            for start in range(0, len(stretch), int(BLOCK_SECONDS * RATE)):
                block = AudioBlock(stretch[start : start + int(BLOCK_SECONDS * RATE)], RATE, position + start)
                _count(session.push(block), counts, spoken)
            position += len(stretch)
            if position / RATE >= next_report:
                record.prediction(f"{next_report:.0f}", memory_mb=_memory_mb(), **counts)
                next_report += REPORT_SECONDS
                progress.step()
        events = session.finish()
        _count(events, counts, spoken)
        summary = events[-1]
        assert isinstance(summary, Summary)
        memory = [item["memory_mb"] for item in record.predictions]
        settled = memory[1:]  # the first ten minutes fill caches
        minutes = np.arange(len(settled)) * REPORT_SECONDS / 60
        slope = float(np.polyfit(minutes, settled, 1)[0]) if len(settled) > 2 else None
        figures = {
            "hours": position / RATE / 3600,
            "lost_samples": summary.gaps,
            "share_of_core": summary.rtf,
            "memory_mb": {"after_10_minutes": settled[0] if settled else None, "at_the_end": _memory_mb()},
            "memory_slope_mb_per_minute": slope,
            **counts,
        }
        record.prediction(END, figures=figures)
        return record.summary(figures)


def _count(events: list[Event], counts: dict[str, int], spoken: list[tuple[float, bool]]) -> None:
    for event in events:
        counts["blocks"] += isinstance(event, Block)
        counts["faults"] += isinstance(event, Fault)
        if isinstance(event, Decision) and event.status != "pending":
            counts["decisions"] += 1
            if event.action != "mute" and event.status == "final":
                counts["acts"] += 1
                owner = next((by_wearer for end, by_wearer in spoken if event.t1 <= end), False)
                counts["acts_of_others"] += not owner


def _memory_mb() -> float:
    """Resident memory of this process; the peak where the system has no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
