"""From what a model wrote to what would be executed: a wrapper around the strict parser, the same for every model.

In this order, each step that changes something noted by its name:

1. `thinking`: a closed block `<think>...</think>` in front is taken off.
2. `fence`: a code fence around the whole is taken off.
3. What the strict parser takes now is taken as it is.
4. `mute`: `[Mute]` in any case, in quotes or with a punctuation mark, is a mute; with an explanation behind it, or once
   anywhere in a text without a call, it is one with `prose`.
5. `syntax`: one call in another common form is written canonically: a bare JSON object, `<tool_call>{...}</tool_call>`,
   parameters called `arguments` or `parameters`, as an object or as JSON in a string, an end tag `<|/TOOL|>` or none.
6. `prose`: exactly one call with text around it is the call, as an agent that looks for calls would run it.

Then the strict parser decides. What it refuses (an unknown tool, a missing, extra or ill-typed parameter, broken JSON, nothing
at all), and before it several calls, a call and a mute, or a call that cannot be read, executes nothing: error
`malformed_call`, with the parser's code, `several` or `unreadable` among the notes.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from voxgate.bench.systems.cache import hash_of_code
from voxgate.bench.systems.outcome import Act, Outcome
from voxgate.models.tools.grammar import LONGEST_OUTPUT, MUTE, MalformedCall, Parsed, parse, render
from voxgate.models.tools.schema import ToolSet

MALFORMED = "malformed_call"
READING = (
    "bench/systems/raw.py", "bench/systems/values.py",
    *(f"models/tools/{name}.py" for name in ("grammar", "schema", "tokens", "numbers", "durations", "dates")),
)  # fmt: skip
"""The code that an output is read by, and its parameters after it."""

_THINKING = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>\s*", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"```[\w-]*\s*\n(.*?)\n?\s*```", re.DOTALL)
_UNCLOSED = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_MUTE = re.compile(r"[\"'`*]*\[\s*mute\s*\][\"'`*]*[.!,:;]?[\"'`*]*(?:\s|$)", re.IGNORECASE)
_ANY_MUTE = re.compile(r"\[\s*mute\s*\]", re.IGNORECASE)
_CALL = re.compile(
    r"<\|\s*TOOL\s*\|>(?P<a>.*?)(?:<\s*/\s*\|\s*TOOL\s*\|\s*>|<\|\s*/\s*TOOL\s*\|>|$(?![\s\S]))"
    r"|<tool_call>(?P<b>.*?)(?:</tool_call>|$(?![\s\S]))",
    re.DOTALL | re.IGNORECASE,
)
_NAMES = ("params", "arguments", "parameters")


class _Unusable(ValueError):
    """Calls that no agent could run as one."""


@functools.cache
def reading_rules() -> str:
    """Hash of the rules that outputs are read by: what was read by other ones is no part of the same record."""
    return hash_of_code(READING)


def read_raw(raw: str, tools: ToolSet) -> Outcome:
    """One model output -> an outcome without times. Never raises."""
    text, notes = _unwrapped(raw)
    found = parse(text, tools)
    if len(raw) <= LONGEST_OUTPUT and (not isinstance(found, Parsed) or found.kind == "answer"):
        try:
            text, more = _canonical(text)
        except _Unusable as error:
            return Outcome(error=MALFORMED, raw=raw, notes=(*notes, str(error)))
        notes += more
        found = parse(text, tools)
    if isinstance(found, MalformedCall):
        return Outcome(error=MALFORMED, raw=raw, notes=(*notes, found.code))
    if found.kind == "mute":
        return Outcome(raw=raw, notes=tuple(notes))
    act = Act.call(found.tool, found.params) if found.kind == "tool" and found.tool else Act.answer(found.text)
    return Outcome((act,), raw=raw, notes=tuple(notes))


def _unwrapped(raw: str) -> tuple[str, list[str]]:
    notes = []
    text = raw
    if (thought := _THINKING.match(text)) is not None:
        text, notes = text[thought.end() :], ["thinking"]
    text = text.strip()
    if (fence := _FENCE.fullmatch(text)) is not None:
        text = fence.group(1).strip()
        notes.append("fence")
    return text, notes


def _canonical(text: str) -> tuple[str, list[str]]:
    """The canonical form of a text that is not in it, and what was done. Raises _Unusable."""
    calls = list(_CALL.finditer(text))
    mute = _MUTE.match(text)
    if mute is not None and not calls:
        return MUTE, ["mute"] if text[mute.end() :].strip() == "" else ["mute", "prose"]
    if not calls:
        if not (text.startswith(("{", "[{")) and text.endswith(("}", "]"))):
            # What is thought, to an end that never came, is no verdict yet.
            said_once = len(_ANY_MUTE.findall(text)) == 1 and not _UNCLOSED.search(text)
            return (MUTE, ["mute", "prose"]) if said_once else (text, [])
        return _call(text), ["syntax"]
    if len(calls) > 1 or _ANY_MUTE.search(text):
        raise _Unusable("several")
    (one,) = calls
    call = _call(one.group("a") or one.group("b") or "")
    around = (text[: one.start()] + text[one.end() :]).strip()
    notes = [] if one.group() == call else ["syntax"]
    return call, [*notes, "prose"] if around else notes


def _call(body: str) -> str:
    """The canonical call of one JSON object that names a tool and its parameters in any common way. Raises _Unusable."""
    found = _json(body)
    if isinstance(found, list):
        if len(found) != 1:
            raise _Unusable("several")
        (found,) = found
    if isinstance(found, dict) and isinstance(found.get("function"), dict) and set(found) <= {"function", "type", "id"}:
        found = found["function"]
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise _Unusable("unreadable")
    named = [name for name in _NAMES if name in found]
    if len(named) != 1 or set(found) != {"name", named[0]}:
        raise _Unusable("unreadable")
    params = found[named[0]]
    if isinstance(params, str):
        params = _json(params)
    if not isinstance(params, dict):
        raise _Unusable("unreadable")
    try:
        return render("tool", found["name"], params)
    except (ValueError, RecursionError) as error:  # a number that JSON does not have
        raise _Unusable("unreadable") from error


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _Unusable("unreadable") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice in one object")
    return found
