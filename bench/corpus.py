"""The written corpus of the benchmark: its lines, and which of them are kept for testing.

A line is what is said in one item: a direct request, a question, a context with the request that follows it, talk to oneself
with the direct request of the same core beside it (its twin), two utterances of one speaker to the assistant and to somebody
near, or talk between people. `core` names what is asked (tool and parameters): lines of one core never stand on both sides
of a split.

Three things are held out, each seeded: a fifth of the cores (`item`), template families (`template`: frames and verb phrases
alike, so that the wording of a held-out line is new), and tools (`tool`). A line with nothing held out trains; whoever trains
on it finds every test text of every split unseen.
"""

from __future__ import annotations

import functools
import hashlib
import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from voxgate.device.errors import InputError

FOLDER = Path(__file__).with_name("scripts")
MANIFEST = FOLDER / "test-hashes.json"
FAMILIES = ("direct", "questions", "contexts", "selftalk", "sidetalk", "bystanders")
FRAMES = (
    "planning", "regret", "quotation", "sarcasm", "rhetorical", "rehearsal", "reading", "past", "hypothetical",
)  # fmt: skip
CONFIGURATIONS = tuple(
    f"{order}:{ours}:{theirs}"
    for order in ("assistant-first", "person-first")
    for ours in ("tool", "talk")
    for theirs in ("tool", "talk")
)
"""Of side-talk: who is spoken to first, and what is said to the assistant and to the person."""

ROLES: Mapping[str, str] = MappingProxyType(
    {"request": "tool", "question": "answer", "context": "mute", "self": "mute", "person": "mute", "between": "mute"}
)
"""What an utterance is -> what it must lead to. `person`: said to somebody near; `between`: people among themselves."""

SEED = 28
"""Chosen before anything was trained or measured: plain imperatives train, and the tools held out take a place, a time and a
number."""
TEMPLATE_SHARE, TOOL_SHARE = 0.3, 0.3
ITEM_PART, DEVELOPMENT_PART = 5, 7
"""One core in five tests; of the others one in seven chooses among recipes."""

SEEDS = "seeds"
"""The family of cases written whole: never held out as a family, since it spreads over all tools."""

AXES = ("item", "template", "tool")


@dataclass(frozen=True, slots=True)
class Utterance:
    """One thing said. `group` and `wording` name its template family and its verb phrase (or template); `params` are the
    canonical values of the tool that the words are about, acted on only where `act` is `tool`."""

    role: str
    text: str
    act: str
    tool: str | None
    params: Mapping[str, Any]
    register: str
    group: str
    wording: str


@dataclass(frozen=True, slots=True)
class Line:
    """One item of a family: its utterances in the order in which they are said (twins: the talk, then the request)."""

    id: str
    family: str
    frame: str | None
    core: str
    utterances: tuple[Utterance, ...]

    @property
    def tools(self) -> frozenset[str]:
        return frozenset(part.tool for part in self.utterances if part.tool)


@dataclass(frozen=True, slots=True)
class Splits:
    """What is held out: template families by kind, verb phrases and tools."""

    seed: int
    families: Mapping[str, frozenset[str]]
    wordings: frozenset[str]
    tools: frozenset[str]

    def held(self, line: Line) -> frozenset[str]:
        """The axes on which a line is held out; empty for a line that trains."""
        found = set()
        if any(self.new_template(line, part) for part in line.utterances):
            found.add("template")
        if line.tools & self.tools:
            found.add("tool")
        if self.side(line.core) == "test":
            found.add("item")
        return frozenset(found)

    def new_template(self, line: Line, part: Utterance) -> bool:
        kept = self.families.get(kind_of(line, part), frozenset())
        return part.group in kept or part.wording in self.wordings

    def part(self, line: Line) -> str:
        """`train`, `development` or `test`."""
        return "test" if self.held(line) else self.side(line.core)

    def side(self, core: str) -> str:
        """The part that a core falls into, whatever the words."""
        if _draw(self.seed, core) % ITEM_PART == 0:
            return "test"
        return "development" if _draw(self.seed + 1, core) % DEVELOPMENT_PART == 0 else "train"

    def cell(self, line: Line) -> str:
        """The part and what is held out: `train`, `development`, `item`, `item+tool`, ... Texts of different cells are not
        nearly the same, so that one axis alone may also be tested: train on every line without it."""
        return "+".join(sorted(self.held(line))) or self.part(line)

    def everything(self, line: Line) -> bool:
        """True where wording, tool and core are all new: a core of a held-out tool is in no training line anyhow, and a
        held-out template without a tool brings words of its own."""
        return "template" in self.held(line) and (not line.tools or bool(line.tools & self.tools))


def kind_of(line: Line, part: Utterance) -> str:
    """The set of template families that an utterance's `group` belongs to."""
    if part.role in {"request", "question"}:
        return part.role
    if part.role == "self":
        return str(line.frame)
    if part.role == "person":
        return "person:tool" if part.tool else "person:talk"
    return part.role


def core_of(tool: str, params: Mapping[str, Any]) -> str:
    """The tool and a hash of what it is asked; upper and lower case are the same core."""
    known = json.dumps(dict(params), sort_keys=True).lower()
    return f"{tool}-{hashlib.sha256(known.encode()).hexdigest()[:8]}"


def splits(lines: Iterable[Line], seed: int = SEED) -> Splits:
    """What is held out of a corpus: a seeded choice among the names that its lines bear."""
    families: dict[str, set[str]] = {}
    wordings: dict[str, set[str]] = {}
    tools: set[str] = set()
    for line in lines:
        tools |= line.tools
        for part in line.utterances:
            families.setdefault(kind_of(line, part), set()).add(part.group)
            if part.tool and part.wording.startswith(f"{part.tool}-phrase"):
                wordings.setdefault(part.tool, set()).add(part.wording)
    return choose(seed, families, wordings, tools)


def choose(
    seed: int, families: Mapping[str, Iterable[str]], wordings: Mapping[str, Iterable[str]], tools: Iterable[str]
) -> Splits:
    """The seeded choice among names; the order in which they come does not matter."""
    chosen = {
        kind: frozenset(_sample(seed, kind, set(names) - {SEEDS}, TEMPLATE_SHARE)) for kind, names in families.items()
    }
    phrases = {name for tool, names in wordings.items() for name in _sample(seed, tool, names, TEMPLATE_SHARE)}
    return Splits(
        seed, MappingProxyType(chosen), frozenset(phrases), frozenset(_sample(seed, "tools", tools, TOOL_SHARE))
    )


def _sample(seed: int, what: str, names: Iterable[str], share: float) -> list[str]:
    ordered = sorted(set(names))
    return random.Random(f"{seed}:{what}").sample(ordered, round(share * len(ordered)))


def _draw(seed: int, core: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}:{core}".encode()).digest()[:6], "big")


def load(folder: Path = FOLDER) -> list[Line]:
    """All lines of a corpus folder, family by family. Raises InputError naming file and line."""
    return [line for family in FAMILIES for line in load_family(family, folder)]


def load_family(family: str, folder: Path = FOLDER) -> list[Line]:
    path = folder / f"{family}.jsonl"
    try:
        rows = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); compose the corpus again") from error
    found = []
    for number, row in enumerate(rows, 1):
        try:
            found.append(from_json(family, json.loads(row)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path}:{number}: no line of the corpus ({error}); correct it") from error
    return found


def from_json(family: str, row: Mapping[str, Any]) -> Line:
    parts = tuple(
        Utterance(
            **{name: part[name] for name in ("role", "text", "act", "tool", "register", "group", "wording")},
            params=MappingProxyType(dict(part["params"])),
        )
        for part in row["utterances"]
    )
    return Line(row["id"], family, row["frame"], row["core"], parts)


def to_json(line: Line) -> str:
    parts = [
        {
            "role": part.role, "text": part.text, "act": part.act, "tool": part.tool, "params": dict(part.params),
            "register": part.register, "group": part.group, "wording": part.wording,
        }
        for part in line.utterances
    ]  # fmt: skip
    return json.dumps(
        {"id": line.id, "frame": line.frame, "core": line.core, "utterances": parts}, ensure_ascii=False
    )  # the family is the file's name


@functools.cache
def plain(text: str) -> str:
    """Words alone, lower case, without hesitations: what two texts are compared by."""
    words = (word.strip(".,?!'-").lower() for word in text.split())
    return " ".join(word for word in words if word and word not in {"um", "uh", "er", "hmm"})


def text_hash(text: str) -> str:
    """64 bits of the plain text's SHA-256, as hexadecimal digits."""
    return hashlib.sha256(plain(text).encode()).hexdigest()[:16]


def hashes_kept(path: Path = MANIFEST) -> frozenset[str]:
    """Hashes of every text that is kept for testing. Raises InputError when the manifest cannot be read."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))["test"]
        return frozenset(value for values in table.values() for value in values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: no manifest of the test texts ({error}); check the installation") from error
