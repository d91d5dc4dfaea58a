"""Canonical outputs: `[Mute]`, `<|TOOL|>{...}</|TOOL|>` or plain text, rendered and strictly parsed.

Parsing never raises: whatever is not exactly one of the three is a `MalformedCall`, and nothing is executed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from voxgate.models.tools.schema import Tool, ToolSet

MUTE = "[Mute]"
OPEN = "<|TOOL|>"
CLOSE = "</|TOOL|>"
LONGEST_OUTPUT = 20_000
DEEPEST_VALUE = 20

_TRACE = re.compile(r"<\s*/?\s*\|?\s*/?\s*tool\s*\|?\s*>|<\|\s*/?\s*tool|tool\s*\|>|\[\s*/?\s*mute", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Parsed:
    """`kind` is `mute`, `tool` or `answer`; `text` is the answer."""

    kind: str
    tool: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True, slots=True)
class MalformedCall:
    """Why an output is not executed. `code`: `too_long`, `empty`, `markup`, `json`, `shape`, `unknown_tool`,
    `missing_parameter`, `extra_parameter` or `bad_value`; `tool` and `parameter` where they are known."""

    code: str
    message: str
    tool: str | None = None
    parameter: str | None = None


class _Refused(ValueError):
    pass


def render(kind: str, tool: str | None = None, params: Mapping[str, Any] | None = None, text: str = "") -> str:
    """The canonical output of a decision. Raises ValueError for a call with values that JSON does not have."""
    if kind == "tool":
        call = {"name": tool, "params": dict(params or {})}
        # What was said may hold the marks themselves; escaped, the same object cannot be read as two.
        body = json.dumps(call, ensure_ascii=False, allow_nan=False)
        return OPEN + body.replace(CLOSE, "\\u003c" + CLOSE[1:]).replace(OPEN, "\\u003c" + OPEN[1:]) + CLOSE
    # An answer must never read as a call or as a mute, whatever was said.
    plain = " ".join(_TRACE.sub(" ", text).split()) if kind == "answer" else ""
    return plain or MUTE


def parse(output: str, tools: ToolSet) -> Parsed | MalformedCall:
    """One canonical output -> what it says, or a structured error. Never raises."""
    if len(output) > LONGEST_OUTPUT:
        return MalformedCall("too_long", f"output of {len(output)} characters")
    if output == MUTE:
        return Parsed("mute")
    if output.startswith(OPEN) and output.endswith(CLOSE) and len(output) >= len(OPEN) + len(CLOSE):
        return _parse_call(output[len(OPEN) : -len(CLOSE)], tools)
    if _TRACE.search(output):
        return MalformedCall("markup", "markup that is neither one whole call nor a mute")
    if not output.strip():
        return MalformedCall("empty", "empty output")
    return Parsed("answer", text=output)


def check_params(tool: Tool, params: Mapping[str, Any]) -> MalformedCall | None:
    """None when the parameters are all there, known, and of the right types and ranges."""
    for name in params:
        if name not in tool.properties:
            return MalformedCall("extra_parameter", f"{tool.name} has no parameter {name[:70]!r}", tool.name, name[:70])
    for name in tool.required:
        if name not in params:
            return MalformedCall("missing_parameter", f"{tool.name} needs {name}", tool.name, name)
    if not _finite(params):
        return MalformedCall("bad_value", "a number that is not finite or a broken character", tool.name)
    from jsonschema import Draft202012Validator  # a tenth of a second that `--help` need not pay

    for error in Draft202012Validator(dict(tool.parameters)).iter_errors(dict(params)):
        parameter = str(error.absolute_path[0]) if error.absolute_path else None
        message = " ".join(str(error.message).split())[:160]
        return MalformedCall("bad_value", message, tool.name, parameter)
    return None


def _parse_call(body: str, tools: ToolSet) -> Parsed | MalformedCall:
    if not (body.startswith("{") and body.endswith("}")):
        return MalformedCall("json", "what stands between the tags is not one JSON object")
    try:
        call = json.loads(body, object_pairs_hook=_pairs, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        return MalformedCall("json", " ".join(str(error).split())[:160] or type(error).__name__)
    if not isinstance(call, dict) or set(call) != {"name", "params"}:
        return MalformedCall("shape", "a call is one object with exactly 'name' and 'params'")
    name, params = call["name"], call["params"]
    if not isinstance(name, str) or not isinstance(params, dict):
        return MalformedCall("shape", "'name' is a string and 'params' an object")
    tool = tools.get(name)
    if tool is None:
        return MalformedCall("unknown_tool", f"no tool {name[:70]!r}", name[:70])
    wrong = check_params(tool, params)
    return wrong or Parsed("tool", tool=name, params=params)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Refused("a key twice in one object")
    return found


def _constant(name: str) -> Any:
    raise _Refused(f"{name} is no JSON number")


def _finite(value: Any, depth: int = 0) -> bool:
    """False for infinities that JSON can still write (1e999), integers past float, lone surrogates, deep nesting."""
    if depth > DEEPEST_VALUE:
        return False
    if isinstance(value, Mapping):
        return all(_finite(key, depth + 1) and _finite(item, depth + 1) for key, item in value.items())
    if isinstance(value, list):
        return all(_finite(item, depth + 1) for item in value)
    if isinstance(value, str):
        return not any(0xD800 <= ord(char) <= 0xDFFF for char in value)
    if isinstance(value, int):
        return abs(value) < 10**300
    return not isinstance(value, float) or math.isfinite(value)
