"""Checks the corpus, and freezes what is tested: `python -m voxgate.bench.corpus_check [--freeze]`.

Refuses duplicates, near-duplicates across cells of the split, families below size, unknown tools, parameters that neither
schema nor words bear out, texts that no voice can read, and a corpus that is not the one whose test texts were hashed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from voxgate.bench.corpus import (
    CONFIGURATIONS,
    FAMILIES,
    FOLDER,
    FRAMES,
    ROLES,
    Line,
    Splits,
    Utterance,
    core_of,
    load,
    plain,
    splits,
    text_hash,
)
from voxgate.bench.corpus_near import BOUND, NearIndex
from voxgate.device.errors import InputError
from voxgate.models.tools.grammar import check_params
from voxgate.models.tools.numbers import read_number
from voxgate.models.tools.schema import ToolSet, load_tools
from voxgate.models.tools.tokens import tokenise

LEAST = {"direct": 150, "questions": 400, "contexts": 500, "selftalk": 150, "sidetalk": 600, "bystanders": 600}
"""Lines of a family: of each tool for direct requests, of each frame for talk to oneself."""
LEAST_CONTEXT_WORDS = 8
"""A context has to found a session: two seconds of speech and more."""
MOST_WORDS = 45
_READABLE = re.compile(r"[A-Z][A-Za-z]*(?:[ ,.?!'-]+[A-Za-z]+)*[.?!]")
_SHAPES = {
    "direct": ("request",), "questions": ("question",), "contexts": ("context", "request"),
    "selftalk": ("self", "request"), "bystanders": ("between",),
}  # fmt: skip


def problems(lines: Sequence[Line], tools: ToolSet) -> list[str]:
    """What is wrong with a corpus, one sentence each; empty when nothing is."""
    held = splits(lines)
    found = [*repeated(lines), *near_duplicates(lines, held), *too_few(lines, tools)]
    return [*(fault for line in lines for fault in faults(line, tools, held)), *found]


def repeated(lines: Sequence[Line]) -> Iterator[str]:
    """Ids and texts that are there twice."""
    for name, count in Counter(line.id for line in lines).items():
        if count > 1:
            yield f"{name}: {count} lines have this id"
    first: dict[str, str] = {}
    for line in lines:
        for part in line.utterances:
            other = first.setdefault(plain(part.text), line.id)
            if other != line.id or sum(plain(one.text) == plain(part.text) for one in line.utterances) > 1:
                yield f"{line.id}: {part.text!r} is said in {other} already"


def faults(line: Line, tools: ToolSet, held: Splits) -> Iterator[str]:
    """What is wrong with one line by itself."""
    for part in line.utterances:
        yield from (f"{line.id}: {fault}" for fault in _utterance(part, tools))
    yield from (f"{line.id}: {fault}" for fault in _shape(line))
    if len({held.new_template(line, part) for part in line.utterances}) > 1:
        yield f"{line.id}: held-out and other templates in one line"
    if line.tools and not (line.tools <= held.tools or line.tools.isdisjoint(held.tools)):
        yield f"{line.id}: held-out and other tools in one line"
    sides = {held.side(core_of(part.tool, part.params)) for part in line.utterances if part.tool}
    if not sides <= {held.side(line.core)}:
        yield f"{line.id}: what is asked in it falls into different parts of the split"


def _utterance(part: Utterance, tools: ToolSet) -> Iterator[str]:
    if not _READABLE.fullmatch(part.text):
        yield f"{part.text!r} cannot be read aloud as it stands: words, marks between them and one at the end only"
    if len(part.text.split()) > MOST_WORDS:
        yield f"{part.text!r} is longer than {MOST_WORDS} words"
    if ROLES.get(part.role) != part.act:
        yield f"role {part.role!r} with the act {part.act!r}"
    if part.role == "context" and len(part.text.split()) < LEAST_CONTEXT_WORDS:
        yield f"{part.text!r} is too short a context"
    if part.tool is None:
        if part.params or part.role == "request":
            yield f"{part.text!r} has parameters or is a request, and no tool"
        return
    tool = tools.get(part.tool)
    if tool is None:
        yield f"unknown tool {part.tool!r}"
        return
    wrong = check_params(tool, part.params)
    if wrong is not None:
        yield f"{part.text!r}: {wrong.message}"
    for name, value in part.params.items():
        if not _is_said(value, part.text):
            yield f"{part.text!r} does not say {name} = {value!r}"


def _is_said(value: Any, text: str) -> bool:
    if isinstance(value, str):
        return f" {plain(value)} " in f" {plain(text)} "
    tokens = tokenise(text)
    found = (read_number(tokens, at) for at in range(len(tokens)))
    return any(one is not None and one.value == value for one in found)


def _shape(line: Line) -> Iterator[str]:
    roles = tuple(part.role for part in line.utterances)
    if line.family == "sidetalk":
        frame = _configuration(line.utterances)
        if line.frame != frame or line.frame not in CONFIGURATIONS:
            yield f"configuration {line.frame!r}, its utterances make {frame!r}"
    elif roles != _SHAPES.get(line.family):
        yield f"roles {roles} in family {line.family!r}"
    if (line.frame in FRAMES) is not (line.family == "selftalk"):
        yield f"frame {line.frame!r} in family {line.family!r}"
    if line.family == "selftalk" and len({core_of(str(part.tool), part.params) for part in line.utterances}) > 1:
        yield "the twin asks something else"
    asked = [part for part in line.utterances if part.role == "request"]
    if asked and line.core != core_of(str(asked[0].tool), asked[0].params):
        yield f"core {line.core!r} is not that of its request"


def _configuration(parts: Sequence[Utterance]) -> str | None:
    ours = [part for part in parts if part.role in {"request", "question"}]
    theirs = [part for part in parts if part.role == "person"]
    if len(parts) != 2 or len(ours) != 1 or len(theirs) != 1:
        return None
    order = "assistant-first" if parts[0] is ours[0] else "person-first"
    return f"{order}:{'tool' if ours[0].tool else 'talk'}:{'tool' if theirs[0].tool else 'talk'}"


def near_duplicates(lines: Sequence[Line], held: Splits) -> Iterator[str]:
    """Texts nearly the same as one of another cell of the split."""
    cells: dict[str, tuple[NearIndex, dict[str, str]]] = {}
    for line in lines:
        index, names = cells.setdefault(held.cell(line), (NearIndex(), {}))
        for part in line.utterances:
            for cell, (other, known) in cells.items():
                near = other.nearest(part.text) if cell != held.cell(line) else None
                if near is not None:
                    yield f"{line.id} ({held.cell(line)}): {part.text!r} is nearly {near!r} of {known[near]} ({cell})"
        for part in line.utterances:
            index.add(part.text)
            names[part.text] = line.id


def too_few(lines: Sequence[Line], tools: ToolSet) -> Iterator[str]:
    """Families below size."""
    wanted = {("direct", tool.name): LEAST["direct"] for tool in tools}
    wanted |= {("selftalk", frame): LEAST["selftalk"] for frame in FRAMES}
    wanted |= {("sidetalk", frame): LEAST["sidetalk"] // len(CONFIGURATIONS) for frame in CONFIGURATIONS}
    wanted |= {(family, ""): LEAST[family] for family in ("questions", "contexts", "bystanders")}
    have: Counter[tuple[str, str]] = Counter()
    for line in lines:
        part = str(line.utterances[0].tool) if line.family == "direct" else line.frame or ""
        have[line.family, part] += 1
    for (family, part), least in wanted.items():
        if have[family, part] < least:
            yield f"{' '.join((family, part)).strip()}: {have[family, part]} lines, {least} are needed"


def manifest(lines: Sequence[Line], folder: Path) -> dict[str, Any]:
    """What is held out, counts, hashes of the files and of every text that is kept for testing."""
    held = splits(lines)
    counts: dict[str, dict[str, int]] = {}
    hashes: dict[str, list[str]] = {}
    for line in lines:
        cells = counts.setdefault(line.family, {})
        cells[held.cell(line)] = cells.get(held.cell(line), 0) + 1
        if held.part(line) == "test":
            hashes.setdefault(line.family, []).extend(text_hash(part.text) for part in line.utterances)
    return {
        "seed": held.seed,
        "near_duplicate_bound": BOUND,
        "held_out": {
            "tools": sorted(held.tools),
            "wordings": sorted(held.wordings),
            "families": {kind: sorted(names) for kind, names in sorted(held.families.items())},
        },
        "lines": {family: dict(sorted(cells.items())) for family, cells in counts.items()},
        "files": {
            f"{family}.jsonl": hashlib.sha256((folder / f"{family}.jsonl").read_bytes()).hexdigest()
            for family in FAMILIES
        },
        "test": {family: sorted(values) for family, values in hashes.items()},
    }


def frozen_problems(lines: Sequence[Line], folder: Path) -> list[str]:
    """How a folder differs from the manifest that was frozen with it."""
    path = folder / "test-hashes.json"
    try:
        frozen = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return [f"{path}: cannot be read ({error}); freeze the corpus"]
    now = manifest(lines, folder)
    return [f"{path}: {key} is not that of the corpus" for key in now if now[key] != frozen.get(key)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voxgate.bench.corpus_check", description="Check the corpus.")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="the corpus (the bundled one)")
    parser.add_argument(
        "--freeze", action="store_true", help="hash the test texts into test-hashes.json, if nothing else is wrong"
    )
    options = parser.parse_args(arguments)
    try:
        lines = load(options.folder)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    found = problems(lines, load_tools())
    if options.freeze and not found:
        table = json.dumps(manifest(lines, options.folder), indent=1) + "\n"
        (options.folder / "test-hashes.json").write_text(table, encoding="utf-8")
    found += frozen_problems(lines, options.folder)
    for one in found:
        print(one, file=sys.stderr)
    if not found:
        print(json.dumps(manifest(lines, options.folder)["lines"], indent=1))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
