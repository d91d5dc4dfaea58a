"""The tools file: a JSON list of function tools in the OpenAI or MCP form, checked before anything may be called.

Beside JSON Schema's own words a string parameter may carry a `format` that says what kind of words fill it:
`date-time` and `duration` (kept as spoken, with the ISO 8601 value beside them), `person` (a name or "my sister") and
`phrase` (a short name of a thing: an item, a door, a place). A string without `format` takes any words.

`examples` are utterances. They may be plain ("order a large latte") or hold parameters in braces, alternatives in round
and optional words in square brackets: "(text|message) {recipient} [that] {body}". `{_}` stands for words that do not matter,
and
`{door:door|gate}` for a value that holds one of the words listed (`{item:!taxi|ride}`: none of them).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from voxgate.device.errors import InputError
from voxgate.models.tools.template import TemplateError, parse_template, slots_of

DEFAULT_TOOLS = Path(__file__).with_name("default_tools.json")

LARGEST_FILE_BYTES = 1_000_000
MOST_TOOLS = 128
MOST_PARAMETERS = 32
MOST_EXAMPLES = 200
LONGEST_EXAMPLE = 400

_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Tool:
    """One function that an assistant may call. `parameters` is its JSON Schema, of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    examples: tuple[str, ...] = ()
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    confirm: bool = False

    @property
    def writes(self) -> bool:
        """True unless the file says `readOnlyHint`: a tool without annotations counts as one that writes."""
        return not self.read_only

    @property
    def properties(self) -> Mapping[str, Mapping[str, Any]]:
        """Parameter name -> its JSON Schema, in the order of the file."""
        found: Mapping[str, Mapping[str, Any]] = self.parameters.get("properties", {})
        return found

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(self.parameters.get("required", ()))


@dataclass(frozen=True, slots=True, eq=False)
class ToolSet:
    """Tools in the order of their file; `source` is the file's name for messages."""

    tools: tuple[Tool, ...]
    source: str = "bundled tools"

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

    def get(self, name: str) -> Tool | None:
        return next((tool for tool in self.tools if tool.name == name), None)


def load_tools(path: Path | str | None = None) -> ToolSet:
    """Read a tools file, or the bundled one for None. Raises InputError: one line with file, tool and remedy."""
    if path is None:
        return _bundled()
    return _load(Path(path))


@functools.cache
def _bundled() -> ToolSet:
    return _load(DEFAULT_TOOLS)


def _load(path: Path) -> ToolSet:
    data = _read_json(path)
    if not isinstance(data, list):
        raise InputError(f"{path}: a tools file is a JSON list of tools, this is {_kind(data)}; put it in [ ]")
    if not data:
        raise InputError(f"{path}: no tools in the list; add at least one")
    if len(data) > MOST_TOOLS:
        raise InputError(f"{path}: {len(data)} tools, at most {MOST_TOOLS} are allowed; split the file")
    tools: list[Tool] = []
    for number, entry in enumerate(data, 1):
        tool = _tool(path, number, entry)
        if any(tool.name == other.name for other in tools):
            raise InputError(f"{path}: two tools are called {tool.name}; rename or remove one")
        tools.append(tool)
    return ToolSet(tuple(tools), str(path))


def _read_json(path: Path) -> Any:
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: cannot be read (not a file); give a tools file")
        size = path.stat().st_size
        if size > LARGEST_FILE_BYTES:
            raise InputError(f"{path}: {size} bytes, a tools file has at most {LARGEST_FILE_BYTES}; split it")
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such tools file; check the path") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8 JSON") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); check the path and its permissions") from error
    try:
        return json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}: malformed JSON at line {error.lineno} column {error.colno} ({error.msg}); correct it there"
        ) from error
    except RecursionError as error:
        raise InputError(f"{path}: malformed JSON, nested too deeply; a tools file is a flat list of tools") from error
    except ValueError as error:
        raise InputError(f"{path}: malformed JSON ({error}); correct it") from error


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {json.dumps(key)[:60]} twice in one object")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _tool(path: Path, number: int, entry: Any) -> Tool:
    where = f"{path}: tool {number}"
    if not isinstance(entry, dict):
        raise InputError(f"{where} is {_kind(entry)}, not an object; write {{'name': ..., 'parameters': ...}}")
    body = entry
    if "function" in entry or entry.get("type") == "function":
        body = entry.get("function", entry)
        if not isinstance(body, dict):
            raise InputError(f"{where}: 'function' is {_kind(body)}, not an object; put name and parameters in it")
        body = {**{key: value for key, value in entry.items() if key not in {"type", "function"}}, **body}
    elif "type" in entry:
        raise InputError(
            f"{where}: unknown tool type {json.dumps(entry['type'])[:40]}; only 'function' is known, or leave it out"
        )
    name = body.get("name")
    if not isinstance(name, str) or not name:
        raise InputError(f"{where} has no name; add 'name'")
    if not _NAME.fullmatch(name):
        raise InputError(f"{where}: bad name {name[:70]!r}; use up to 64 letters, digits and _ . -, a letter first")
    where = f"{path}: tool {name}"
    description = body.get("description", "")
    if not isinstance(description, str):
        raise InputError(f"{where}: 'description' is {_kind(description)}; make it a string")
    if "parameters" in body and "inputSchema" in body:
        raise InputError(f"{where} has both 'parameters' and 'inputSchema'; keep one")
    parameters = _parameters(where, body.get("parameters", body.get("inputSchema")))
    hints = _hints(where, body.get("annotations", {}))
    confirm = body.get("confirm", False)
    if not isinstance(confirm, bool):
        raise InputError(f"{where}: 'confirm' is {_kind(confirm)}; make it true or false")
    read_only = hints.get("readOnlyHint", False)
    return Tool(
        name=name,
        description=description,
        parameters=MappingProxyType(parameters),
        examples=_examples(where, body.get("examples", []), parameters["properties"]),
        read_only=read_only,
        destructive=not read_only and hints.get("destructiveHint", True),
        idempotent=hints.get("idempotentHint", False),
        confirm=confirm,
    )


def _parameters(where: str, schema: Any) -> dict[str, Any]:
    if schema is None:
        schema = {"type": "object", "properties": {}}
    if not isinstance(schema, dict):
        raise InputError(f"{where}: parameters are {_kind(schema)}; give a JSON Schema of type object")
    if schema.get("type", "object") != "object":
        raise InputError(f"{where}: parameters have type {json.dumps(schema['type'])[:40]}; make it 'object'")
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        raise InputError(f"{where}: 'properties' is {_kind(properties)}; give an object of parameters")
    if len(properties) > MOST_PARAMETERS:
        raise InputError(f"{where}: {len(properties)} parameters, at most {MOST_PARAMETERS} are allowed; use fewer")
    for name, part in properties.items():
        if not isinstance(part, dict):
            raise InputError(f"{where}: parameter {name} is {_kind(part)}; give it a JSON Schema object")
        if name == "_" or not _NAME.fullmatch(name):
            raise InputError(f"{where}: bad parameter name {name[:70]!r}; use letters, digits and _")
        types = part.get("type", [])
        for kind in types if isinstance(types, list) else [types]:
            if not isinstance(kind, str) or kind not in _TYPES:
                raise InputError(
                    f"{where}: parameter {name} has unknown type {json.dumps(kind)[:40]}; "
                    f"use one of {', '.join(sorted(_TYPES))}"
                )
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise InputError(f"{where}: 'required' must be a list of parameter names")
    for name in required:
        if name not in properties:
            raise InputError(f"{where}: required parameter {name[:70]!r} is not among its properties; add or remove it")
    if _holds_reference(schema):
        raise InputError(f"{where}: '$ref' is not supported in parameters; write the schema out")
    _check_schema(where, schema)
    return {**schema, "type": "object", "properties": properties}


def _check_schema(where: str, schema: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator, SchemaError  # a tenth of a second that `--help` need not pay

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = ".".join(str(part) for part in error.absolute_path) or "top"
        message = " ".join(str(error.message).split())[:160]
        raise InputError(f"{where}: bad JSON Schema at {place} ({message}); correct it") from error
    for pattern in _patterns(schema):
        try:
            re.compile(pattern)
        except re.error as error:
            raise InputError(f"{where}: bad pattern {pattern[:60]!r} ({error}); correct it") from error


def _holds_reference(value: Any) -> bool:
    if isinstance(value, dict):
        return any(key in {"$ref", "$dynamicRef"} or _holds_reference(item) for key, item in value.items())
    return isinstance(value, list) and any(_holds_reference(item) for item in value)


def _patterns(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("pattern"), str):
            yield value["pattern"]
        for item in value.values():
            yield from _patterns(item)
    elif isinstance(value, list):
        for item in value:
            yield from _patterns(item)


def _hints(where: str, annotations: Any) -> dict[str, bool]:
    if not isinstance(annotations, dict):
        raise InputError(f"{where}: 'annotations' is {_kind(annotations)}; give an object of hints")
    found = {}
    for key in ("readOnlyHint", "destructiveHint", "idempotentHint"):
        if key in annotations:
            if not isinstance(annotations[key], bool):
                raise InputError(f"{where}: {key} is {_kind(annotations[key])}; make it true or false")
            found[key] = annotations[key]
    return found


def _examples(where: str, examples: Any, properties: Mapping[str, Any]) -> tuple[str, ...]:
    if not isinstance(examples, list) or not all(isinstance(item, str) for item in examples):
        raise InputError(f"{where}: 'examples' must be a list of strings")
    if len(examples) > MOST_EXAMPLES:
        raise InputError(
            f"{where}: {len(examples)} examples, at most {MOST_EXAMPLES} are allowed; keep the most varied"
        )
    for example in examples:
        if len(example) > LONGEST_EXAMPLE:
            raise InputError(f"{where}: an example of {len(example)} characters; at most {LONGEST_EXAMPLE}: shorten it")
        try:
            slots = slots_of(parse_template(example))
        except TemplateError as error:
            raise InputError(f"{where}: example {example[:60]!r} {error}; correct it") from error
        for slot in slots:
            if slot != "_" and slot not in properties:
                raise InputError(f"{where}: example {example[:60]!r} names no parameter with {{{slot}}}; correct it")
    return tuple(examples)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
