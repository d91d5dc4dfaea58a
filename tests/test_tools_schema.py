"""The tools file: both forms are read, and each bad thing is one line that names file, tool and remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from voxgate.device.errors import InputError
from voxgate.models.tools import load_tools, vocabulary
from voxgate.models.tools.schema import LARGEST_FILE_BYTES
from voxgate.models.tools.template import parse_template, slots_of

CONTRACT = {
    "send_message": (["recipient", "body"], 2),
    "call_contact": (["contact"], 1),
    "create_event": (["title", "when", "attendees"], 2),
    "cancel_event": (["title", "when"], 1),
    "send_money": (["recipient", "amount", "currency"], 2),
    "place_order": (["item", "quantity", "merchant"], 1),
    "book_ride": (["destination", "when"], 1),
    "unlock_door": (["door"], 1),
    "set_thermostat": (["temperature", "room"], 1),
    "share_location": (["recipient", "duration"], 1),
}
"""Tool -> its parameters in order, and how many of them are required, as the contract lists them."""


def write(folder: Path, value: Any) -> Path:
    path = folder / "tools.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def test_bundled_tools_are_those_of_the_contract() -> None:
    tools = load_tools()
    assert [tool.name for tool in tools] == list(CONTRACT)
    for tool in tools:
        names, required = CONTRACT[tool.name]
        assert list(tool.properties) == names
        assert list(tool.required) == names[:required]
        assert tool.writes and tool.description
        assert len(tool.examples) >= 8
    for name in ("amount", "quantity", "temperature"):
        owner = next(tool for tool in tools if name in tool.properties)
        assert owner.properties[name]["type"] == "number"
    for tool in tools:
        if "when" in tool.properties:
            assert tool.properties["when"]["format"] == "date-time"


def test_every_bundled_parameter_stands_in_an_example() -> None:
    for tool in load_tools():
        shown = {slot for example in tool.examples for slot in slots_of(parse_template(example))}
        assert set(tool.properties) - {"currency"} <= shown  # the currency comes with the amount


@pytest.mark.parametrize("form", ["openai", "flat", "mcp", "typed flat"])
def test_forms(tmp_path: Path, form: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    entry: dict[str, Any] = {
        "openai": {"type": "function", "function": {"name": "go", "parameters": schema}, "confirm": True},
        "flat": {"name": "go", "parameters": schema, "confirm": True},
        "mcp": {"name": "go", "inputSchema": schema, "confirm": True},
        "typed flat": {"type": "function", "name": "go", "parameters": schema, "confirm": True},
    }[form]
    (tool,) = load_tools(write(tmp_path, [entry])).tools
    assert (tool.name, tool.required, tool.confirm, tool.writes) == ("go", ("n",), True, True)


def test_annotations(tmp_path: Path) -> None:
    entries = [
        {"name": "a"},
        {"name": "b", "annotations": {"readOnlyHint": True}},
        {"name": "c", "annotations": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True}},
    ]
    a, b, c = load_tools(write(tmp_path, entries)).tools
    assert (a.writes, a.destructive) == (True, True)
    assert (b.writes, b.destructive) == (False, False)
    assert (c.writes, c.destructive, c.idempotent) == (True, False, True)


def with_schema(schema: Any) -> list[Any]:
    return [{"name": "go", "parameters": schema}]


BAD: dict[str, tuple[Any, str]] = {
    "malformed": ('[{"name": "go",]', "line 1 column"),
    "not a list": ({"name": "go"}, "list"),
    "empty": ([], "no tools"),
    "nothing": ("", "malformed JSON"),
    "not an object": (["go"], "tool 1"),
    "no name": ([{"parameters": {}}], "no name"),
    "bad name": ([{"name": "go there"}], "bad name"),
    "duplicate name": ([{"name": "go"}, {"name": "go"}], "two tools are called go"),
    "duplicate key": ('[{"name": "go", "name": "stay"}]', "twice"),
    "nan": ('[{"name": "go", "x": NaN}]', "NaN"),
    "unknown tool type": ([{"type": "plugin", "name": "go"}], "plugin"),
    "unknown type": (with_schema({"properties": {"n": {"type": "money"}}}), "unknown type"),
    "bad schema": (with_schema({"properties": {"n": {"type": "number", "minimum": "low"}}}), "bad JSON Schema"),
    "bad pattern": (with_schema({"properties": {"n": {"type": "string", "pattern": "("}}}), "pattern"),
    "parameters of another type": (with_schema({"type": "array"}), "object"),
    "parameter is no schema": (with_schema({"properties": {"n": "string"}}), "parameter n"),
    "required unknown": (with_schema({"properties": {}, "required": ["n"]}), "required parameter"),
    "required is no list": (with_schema({"properties": {}, "required": "n"}), "required"),
    "reference": (with_schema({"properties": {"n": {"$ref": "http://example.org/x"}}}), "$ref"),
    "examples are no strings": ([{"name": "go", "examples": [1]}], "examples"),
    "example names no parameter": ([{"name": "go", "examples": ["go to {place}"]}], "{place}"),
    "example with open bracket": ([{"name": "go", "examples": ["go (now"]}], "never closed"),
    "annotations": ([{"name": "go", "annotations": {"readOnlyHint": "yes"}}], "readOnlyHint"),
    "confirm": ([{"name": "go", "confirm": "yes"}], "confirm"),
    "two schemas": ([{"name": "go", "parameters": {}, "inputSchema": {}}], "both"),
    "too many tools": ([{"name": f"t{n}"} for n in range(200)], "at most"),
    "deep": ("[" * 5000, "JSON"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_file_is_one_line_with_the_remedy(tmp_path: Path, case: str) -> None:
    content, part = BAD[case]
    path = write(tmp_path, content)
    with pytest.raises(InputError) as caught:
        load_tools(path)
    message = str(caught.value)
    assert message.startswith(str(path)) and part in message and "\n" not in message


def test_bad_files_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such tools file"):
        load_tools(tmp_path / "absent.json")
    with pytest.raises(InputError, match="cannot be read"):
        load_tools(tmp_path)
    path = tmp_path / "tools.json"
    path.write_bytes(b"\xff\xfe[]")
    with pytest.raises(InputError, match="not UTF-8"):
        load_tools(path)
    path.write_bytes(b" " * (LARGEST_FILE_BYTES + 1))
    with pytest.raises(InputError, match="at most"):
        load_tools(path)


def test_vocabulary_holds_enum_values_and_literals_of_examples(tmp_path: Path) -> None:
    entry = {
        "name": "paint",
        "parameters": {"properties": {"colour": {"type": "string", "enum": ["red", "sky blue"]}}},
        "examples": ["(paint|colour) it {colour} [right now]"],
    }
    assert vocabulary(load_tools(write(tmp_path, [entry]))) == [
        "red",
        "sky blue",
        "paint it",
        "right now",
        "colour it",
    ]
