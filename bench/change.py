"""Another person goes on with the wearer's sentence, or begins it: how short may he be and still be found?

Two questions about every scene (`bench.change_scenes`). The product's, through the real session at its shipped thresholds:
would a word of the bystander's be acted on? And that of the evidence alone, free of thresholds: how far do scores of scenes
with a change stand apart from those without one? The other side of both is the control, the wearer's own speech, which must
not be refused.
Recognised words are replaced by known ones (`bench.change_words`); everything else is what `voxgate run` runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.bench.change_figures import figures, picture
from voxgate.bench.change_scenes import LENGTHS_SECONDS, STAGES, Case, People, Rig
from voxgate.bench.change_scores import heard, scores
from voxgate.bench.change_words import TOOLS, KnownWords, Near, Remembered, RememberedEncoder, Spoken, words_of
from voxgate.bench.record import Progress, Record
from voxgate.bench.scenes import generator_for
from voxgate.calib.splices import Spliced
from voxgate.device.blocks import AudioBlock
from voxgate.models.distance import near_judge
from voxgate.models.events import Decision, Event
from voxgate.models.evidence import NearJudge
from voxgate.models.extractors import Extractors, load_extractors
from voxgate.models.session import Session
from voxgate.models.settings import RATE, GateSettings

ITEMS = {"mono": 120, "stereo": 96, "pendant-4": 96, "glasses-8": 96, "glasses-8 mouth": 96}
"""Items of one length, tails and heads in halves, so that there are forty of either; twice as many controls."""
INITIATOR_ITEMS = 96
FEW_LENGTHS = (0.3, 0.6, 1.0, 1.5)
"""Lengths of the stages that are not `SCORED`, and of sessions without a profile."""
SCORED = ("mono", "glasses-8")
"""Stages whose scores before any threshold are recorded too."""
BLOCK_SAMPLES = 1600
DOUBT_ALONE = ["low_confidence"]
"""What a destructive call is refused for, and no other would be, when a change is merely possible."""


def run(data: Path, out: Path, seed: int, limit: int | None = None) -> dict[str, Any]:
    """Render, listen and score; resumes where it stopped. `limit`: items of one length and array, instead of `ITEMS`.

    Raises InputError when recordings are missing from `data`.
    """
    extractors = load_extractors(None)
    graph, encoder = Remembered(extractors.vad), RememberedEncoder(extractors.speaker.encoder)
    extractors.speaker.encoder = encoder
    extractors = dataclasses.replace(extractors, vad=graph)
    people = People(data)
    rig = Rig(data, people, extractors.speaker, seed)
    model = extractors.speaker.encoder
    settings = {
        "benchmark": "change",
        "seed": seed,
        "limit": limit,
        "items": ITEMS | {"mono, initiator": INITIATOR_ITEMS},
        "model": {"name": model.name, "sha256": model.sha256},
        "threshold_llr": extractors.speaker.calibration.threshold,
    }
    with Record(out, settings) as record:
        cases = list(_cases(people, limit))
        progress = Progress("change", len(cases))
        scene = (cases[0].stage, -1)
        for case in cases:
            if (case.stage, case.number) != scene:
                scene = (case.stage, case.number)
                graph.forget()
                encoder.forget()
            if case.id not in record.done:
                spliced = rig.hear(case)
                if spliced is not None:
                    record.segment(
                        case.id,
                        spliced.samples,
                        voice=case.voice.id,
                        rate=RATE,
                        normalisation="wearer's speech at RMS 0.05 on the recogniser channel",
                        boundary=spliced.of("wearer"),
                        room=case.condition,
                        rival=case.rival.id,
                    )
                    record.prediction(case.id, **_described(case), **_heard(case, spliced, rig, extractors))
            progress.step()
        found = figures(record.predictions, seed)
        picture(found, out / "curve.png")
        return record.summary(
            found,
            note="real speech; mono, stereo and pendant rooms simulated, glasses measured; known pseudo-words of about 0.3 s",
        )


def _cases(people: People, limit: int | None) -> Iterator[Case]:
    """Utterances by turns, one of each speaker before the next of any; the same people at every length."""
    for stage, initiator in [*((stage, False) for stage in STAGES), ("mono", True)]:
        count = limit or (INITIATOR_ITEMS if initiator else ITEMS[stage])
        lengths = LENGTHS_SECONDS if stage in SCORED and not initiator else FEW_LENGTHS
        for number in range(2 * count):
            for seconds in (0.0, *lengths) if number < count else (0.0,):
                yield _case(people, stage, seconds, number, initiator)


def _case(people: People, stage: str, seconds: float, number: int, initiator: bool) -> Case:
    speakers = sorted(people.tested)
    wearer = speakers[number % len(speakers)]
    generator = generator_for("people", stage, number)
    own = people.tested[wearer]
    rivals = people.rivals(wearer)
    rival = people.tested[rivals[int(generator.integers(len(rivals)))]]
    return Case(
        stage,
        "control" if not seconds else ("tail", "head")[number // len(speakers) % 2],
        seconds,
        number,
        own[int(generator.integers(len(own)))],
        rival[int(generator.integers(len(rival)))],
        initiator,
    )


def _described(case: Case) -> dict[str, Any]:
    return {
        "stage": case.stage,
        "mode": "initiator" if case.initiator else "wearer",
        "kind": case.kind,
        "seconds": case.seconds,
        "condition": case.condition,
        "wearer": case.voice.speaker,
        "bystander": case.rival.speaker if case.seconds else None,
    }


def _heard(case: Case, spliced: Spliced, rig: Rig, extractors: Extractors) -> dict[str, Any]:
    """What the session makes of a scene: whose words were acted on, and the scores before any threshold."""
    array = rig.array(case)
    words = words_of(spliced.spans)
    recogniser = KnownWords(np.ascontiguousarray(spliced.samples[:, array.recogniser]), words)
    judge: NearJudge | None = Near() if array.name in ("mono", "stereo") else None
    profile = None if case.initiator else rig.profile(case)
    session = Session(
        dataclasses.replace(extractors, recogniser=recogniser),
        GateSettings(),
        array,
        TOOLS,
        source=case.id,
        rate=RATE,
        profile=profile,
        judge=judge,
    )
    events: list[Event] = []
    for start in range(0, len(spliced.samples), BLOCK_SAMPLES):
        events += session.push(AudioBlock(spliced.samples[start : start + BLOCK_SAMPLES], RATE, start))
    events += session.finish()
    decisions = [event for event in events if isinstance(event, Decision) and event.status != "pending"]
    # The words that opened a session without a profile were not asked about.
    since = spliced.spans[1][1] - 0.2 if case.initiator else 0.0
    found = _whose(decisions, [word for word in words if word.t0 >= since])
    if profile is None or case.stage not in SCORED:
        return found
    judge = judge or near_judge(array, profile.signature, profile.near)
    turn = heard(spliced.samples, array, judge, extractors)
    scorer = extractors.speaker.scorer_for(profile)
    return found | {
        "scores": {} if turn is None else scores(turn, judge, extractors.speaker, scorer, extractors.change)
    }


def _whose(decisions: list[Decision], words: list[Spoken]) -> dict[str, Any]:
    """How many words of each talker are covered by an act, of any tool and of one that is destructive, and why not."""
    acted: dict[str, dict[str, int]] = {"any": {}, "destructive": {}}
    reasons: set[str] = set()
    for decision in decisions:
        covered = [w for w in words if decision.t0 - 0.3 <= (w.t0 + w.t1) / 2 <= decision.t1 + 0.3]
        inside = {(round(w.t0, 3), round(w.t1, 3)) for w in decision.words if w.t0 is not None and w.t1 is not None}
        covered = [w for w in covered if any(abs(a - w.t0) < 0.05 and abs(b - w.t1) < 0.05 for a, b in inside)]
        acts = decision.action != "mute"
        doubted = not acts and decision.reasons == DOUBT_ALONE and bool(decision.text)
        for word in covered:
            if acts or doubted:
                acted["any"][word.who] = acted["any"].get(word.who, 0) + 1
            if acts:
                acted["destructive"][word.who] = acted["destructive"].get(word.who, 0) + 1
        if not acts and any(w.t1 > decision.t0 and w.t0 < decision.t1 for w in words):
            reasons |= set(decision.reasons)
    return {
        "words": {who: sum(word.who == who for word in words) for who in sorted({word.who for word in words})},
        "acted": acted,
        "decisions": len(decisions),
        "reasons": sorted(reasons),
    }
