"""A small benchmark set and records of made-up systems on it, scored and summed up by the benchmark's own code."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from voxgate.bench.items import Item, Placed
from voxgate.bench.record import Record
from voxgate.bench.systems.figures import figures
from voxgate.bench.systems.outcome import Act, Outcome
from voxgate.bench.systems.scoring import RULES, score
from voxgate.models.runtime import sha256_of
from voxgate.models.tools.grammar import MUTE, render

RATE = 16_000
SECONDS = 0.4
PARAMS: dict[str, dict[str, Any]] = {
    "send_money": {"recipient": "Jamal", "amount": 40},
    "unlock_door": {"door": "front door"},
    "send_message": {"recipient": "Ana", "body": "running late"},
}
Decide = Callable[[Item, random.Random], Outcome]


def _item(id: str, family: str, variant: str, pair: str, cell: str, tool: str | None, **more: Any) -> Item:
    params = PARAMS[tool] if tool else {}
    who, near, role, wants = (more.pop(name) for name in ("who", "near", "role", "wants"))
    audio = more.pop("audio", f"audio/{id}.wav")
    text = more.pop("text", f"{(tool or 'what time is it').replace('_', ' ')} {pair}")
    placed = Placed(f"s-{id}", role, who, text, 0.1, 0.3, 0.3 if near else 2.0, near)
    first = Placed(f"c-{id}", "context", "wearer", "so we were talking", 0.0, 0.1, 0.3, True)
    target = {"tool": render("tool", tool, params), "mute": MUTE, "answer": "answer"}[wants]
    return Item(
        id=id, family=family, variant=variant, pair=pair, cell=cell, target=target, tool=tool if wants == "tool" else None,
        params=params if wants == "tool" else {}, trigger=(0.1, 0.3), array=more.pop("array", "mono"), audio=audio,
        text=text if audio is None else None, segments=(first, placed), held=more.pop("held", ()), line=f"line-{pair}",
        facts=more.pop("facts", {}),
    )  # fmt: skip


def items(count: int = 3, arrays: tuple[str, ...] = ("mono",)) -> list[Item]:
    """`count` pairs of each family and cell, on every array."""
    found: list[Item] = []
    tools = list(PARAMS)
    held = ((), ("voices", "rooms"), ("template",), ("voices", "rooms", "template", "tool", "item"))
    for array, number in itertools.product(arrays, range(count)):
        tool, new = tools[number % len(tools)], held[number % len(held)]
        makers = {"engines": ("within", "across")[number % 2], "alike": False, "shared_source": number == 0}
        own: dict[str, Any] = {"array": array, "held": new, "facts": makers}
        name = f"{array}-{number}"
        wearer: dict[str, Any] = {"who": "wearer", "near": True, "role": "request"}
        found += [
            _item(f"switch-{name}", "speaker-switch", "switch", f"w{number}", "", tool, who="bystander", near=False,
                  role="request", wants="mute", **own),
            _item(f"single-{name}", "speaker-switch", "single", f"w{number}", "", tool, **wearer, wants="tool", **own),
            _item(f"self-{name}", "self-talk", ("planning", "regret")[number % 2], f"t{number}", "", tool, who="wearer",
                  near=True, role="self", wants="mute", **own),
            _item(f"twin-{name}", "self-talk", "twin", f"t{number}", "", tool, **wearer, wants="tool", **own),
            _item(f"first-{name}", "side-talk", "assistant-first:tool:talk", f"d{number}", "", tool, **wearer, wants="tool",
                  **own),
            _item(f"last-{name}", "side-talk", "person-first:tool:talk", f"d{number}", "", tool, **wearer, wants="tool",
                  **own),
            _item(f"request-{name}", "request", "plain", f"r{number}", "", tool, **wearer, wants="tool", **own),
            _item(f"question-{name}", "question", "plain", f"q{number}", "", None, **wearer, wants="answer", **own),
        ]  # fmt: skip
        for who, near, gap in itertools.product(("same", "other"), (True, False), (0, 600)):
            cell = f"{who}/{'near' if near else 'far'}/{gap}"
            found.append(
                _item(f"cue-{cell.replace('/', '-')}-{name}", "cue", "eight", f"c{number}", cell, tool,
                      who="wearer" if who == "same" else "bystander", near=near, role="request",
                      wants="tool" if who == "same" and near else "mute", **own)
            )  # fmt: skip
        for more in ("at-mouth", "measured"):
            cell, pair = f"other/near/0/{more}", f"c{number}" + ("@measured" if more == "measured" else "")
            found.append(
                _item(f"cue-{cell.replace('/', '-')}-{name}", "cue", "eight", pair, cell, tool, who="bystander", near=True,
                      role="request", wants="mute", **own)
            )  # fmt: skip
    for number in range(count):
        found.append(
            _item(f"text-{number}", "speaker-switch", "text-only", f"w{number}", "", tools[number % len(tools)], audio=None,
                  who="wearer", near=True, role="request", wants="tool", array="text")
        )  # fmt: skip
    return found


def write_set(folder: Path, found: list[Item], **facts: Any) -> Path:
    """A set folder with short sounds."""
    (folder / "audio").mkdir(parents=True)
    write_items(folder, found)
    (folder / "set.json").write_text(
        json.dumps({"name": folder.name, "voices": [{"name": "a"}], "synthetic": ["a"], "measured": [], **facts}),
        encoding="utf-8",
    )
    generator = np.random.default_rng(0)
    for item in found:
        if item.audio is not None:
            noise = 0.1 * generator.standard_normal(int(SECONDS * RATE))
            soundfile.write(folder / item.audio, noise, RATE, subtype="PCM_16")
    return folder


def write_items(folder: Path, found: list[Item]) -> None:
    lines = [json.dumps(item.row(), ensure_ascii=False) + "\n" for item in found]
    (folder / "items.jsonl").write_text("".join(lines), encoding="utf-8")


def with_words(item: Item, text: str) -> Item:
    """The item, its last segment saying something else."""
    *before, last = item.segments
    return replace(item, segments=(*before, replace(last, text=text)))


def elsewhere(item: Item) -> Item:
    """The item, its sound outside of the set."""
    return replace(item, audio="../secret.wav")


def write_record(out: Path, set_folder: Path, found: list[Item], system: str, decide: Decide, **more: Any) -> Path:
    """A record as `voxgate bench run SET --system` writes it."""
    settings = {
        "benchmark": "systems",
        "set": {"items": sha256_of(set_folder / "items.jsonl"), "name": set_folder.name},
        "rules": RULES, "system": system, "mode": "wearer", "split": "all", "seed": 0, "limit": None, "strategy": "plain",
        "facts": {}, **more,
    }  # fmt: skip
    voices = {placed.segment: f"voice-{number % 4}" for number, item in enumerate(found) for placed in item.segments}
    chance = random.Random(system)
    with Record(out, settings) as record:
        for item in found:
            record.prediction(item.id, **score(item, decide(item, chance), voices))
        facts = json.loads((set_folder / "set.json").read_text(encoding="utf-8"))
        record.summary(figures(record.predictions, 0), system={"threshold": 0.5}, set_facts=facts)
    return out


def never(item: Item, chance: random.Random) -> Outcome:
    return Outcome()


def always(item: Item, chance: random.Random) -> Outcome:
    tool = item.tool or "send_money"
    return Outcome((Act.call(tool, item.params or PARAMS[tool]),))


def gate(sure: float) -> Decide:
    """Acts on the target with that chance of being right, and says so with probabilities."""

    def decide(item: Item, chance: random.Random) -> Outcome:
        right = chance.random() < sure
        wants = item.target != MUTE
        about = item.segments[-1]
        truths = {
            "wearer": about.who == "wearer", "near": about.near, "addressed": about.role in ("request", "question"),
        }  # fmt: skip
        scores: dict[str, float | None] = {
            name: round(min(max(chance.gauss(0.86 if truth else 0.14, 0.22), 0.0), 1.0), 3)
            for name, truth in truths.items()
        }
        if chance.random() < 0.03:
            scores["near"] = None
        spans = (item.trigger,) if item.trigger else ()
        if wants != right:
            return Outcome(scores=scores, reasons=("other_speaker",) if not wants else ("far_field", "unknown_speaker"))
        if item.target == "answer":
            return Outcome((Act.answer(item.segments[-1].text, spans),), scores=scores)
        tool = item.tool or "send_money"
        params = dict(item.params or PARAMS[tool])
        if chance.random() > sure:
            params["amount" if "amount" in params else next(iter(params))] = 41 if "amount" in params else "back door"
        return Outcome((Act.call(tool, params, spans),), scores=scores)

    return decide
