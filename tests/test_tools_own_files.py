"""Tools files that users bring: a fixed command grammar, drink orders, and tools described by name and schema alone."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from voxgate.models.evidence import Understood
from voxgate.models.tools import ToolSet, load_tools, understand
from voxgate.models.tools.enums import likeness
from voxgate.models.tools.phonetic import alike

DATA = Path(__file__).parent / "data"
GRID = load_tools(DATA / "tools_grid.json")
COFFEE = load_tools(DATA / "tools_coffee.json")
PLAIN = load_tools(DATA / "tools_plain.json")


def grid(text: str) -> str | None:
    found = understand(text, GRID)
    return " ".join(found.params.values()) if found.kind == "tool" else None


def test_every_kind_of_grid_sentence_as_the_grammar_writes_it() -> None:
    values = [schema["enum"] for schema in GRID.tools[0].properties.values()]
    sentences = list(itertools.product(*values))
    for words in random.Random(7).sample(sentences, 400):
        assert grid(" ".join(words)) == " ".join(words)


@pytest.mark.parametrize(
    ("heard", "said"),
    [
        ("Been blue by M four again.", "bin blue by M four again"),
        ("Place blue at J8 soon.", "place blue at J eight soon"),
        ("Place blue at Jay eight, soon.", "place blue at J eight soon"),
        ("Lay white in sea two now.", "lay white in C two now"),
        ("Leigh red with tea nine please.", "lay red with T nine please"),
        ("Set White with F zero. Please.", "set white with F zero please"),
        ("Plays blew at A3 soon", "place blue at A three soon"),
        ("Bin green by oh one now", "bin green by O one now"),
        ("Bin blue at zed 7 please.", "bin blue at Z seven please"),
        ("Lay blue by are 2 please", "lay blue by R two please"),
        ("Set red in I nine again", "set red in I nine again"),
        ("Set blue with be ate soon", "set blue with B eight soon"),
    ],
)
def test_grid_as_a_recogniser_spells_it(heard: str, said: str) -> None:
    assert grid(heard) == said
    assert understand(heard, GRID).addressed > 0.7


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("Place red at Y five.", ("adverb",)),
        ("Bin blue by M again", ("digit",)),
        ("Thin blue by D two now.", ("verb",)),
        ("bin blue", ("preposition", "letter", "digit", "adverb")),
    ],
)
def test_grid_never_guesses_a_part(text: str, missing: tuple[str, ...]) -> None:
    found = understand(text, GRID)
    assert (found.kind, found.missing) == ("answer", missing)


@pytest.mark.parametrize(
    "text",
    [
        "I placed blue at J eight",
        "She said bin blue by M four again",
        "Sarah, bin blue by M four again",
        "Don't bin blue by M four again",
        "The sky is blue again",
        "Nice to see you again soon",
    ],
)
def test_grid_talk_is_no_command(text: str) -> None:
    assert understand(text, GRID).kind == "none"


@pytest.mark.parametrize(
    ("text", "params"),
    [
        (
            "Can I get a large latte with dark roast and some milk?",
            {"coffeeDrink": "latte", "size": "large", "roast": "dark roast", "milkAmount": "some milk"},
        ),
        (
            "I'd like a 12-ounce mocha with soy milk and a double shot",
            {"coffeeDrink": "mocha", "size": "twelve ounce", "milkAmount": "soy milk", "numberOfShots": "double shot"},
        ),
        (
            "Hi, can I have an expresso with lots of soy milk",
            {"coffeeDrink": "espresso", "milkAmount": "lots of soy milk"},
        ),
        ("I'll have a large mocha please", {"coffeeDrink": "mocha", "size": "large"}),
        ("make me a cappucino", {"coffeeDrink": "cappuccino"}),
        ("Get me a 20 oz... twenty ounce drip coffee", {"coffeeDrink": "drip coffee", "size": "twenty ounce"}),
    ],
)
def test_coffee(text: str, params: dict[str, Any]) -> None:
    found = understand(text, COFFEE)
    assert (found.kind, found.params) == ("tool", params)


@pytest.mark.parametrize(
    "text",
    [
        "I had a large latte yesterday",
        "Mum, can you order a latte?",
        "The coffee was great",
        "I should order a large latte",
    ],
)
def test_coffee_talk_is_no_order(text: str) -> None:
    assert understand(text, COFFEE).kind == "none"


@pytest.mark.parametrize(
    ("text", "tool", "params"),
    [
        ("Set the kitchen light to 40", "set_light", {"room": "kitchen", "brightness": 40}),
        ("add a task call the plumber", "add_task", {"task": "call the plumber"}),
        ("Please set a timer for an hour and a half", "start_timer", {"duration": "an hour and a half"}),
        ("What's the weather in Paris?", "get_weather", {"city": "Paris"}),
        ("lock all the doors", "lock_all_doors", {}),
    ],
)
def test_plain_tools(text: str, tool: str, params: dict[str, Any]) -> None:
    found: Understood = understand(text, PLAIN)
    assert (found.kind, found.tool, found.params) == ("tool", tool, params)


@pytest.mark.parametrize("text", ["Set the kitchen light to four hundred", "Set the light", "text Ana hi", "lock"])
def test_plain_tools_do_not_guess(text: str) -> None:
    assert understand(text, PLAIN).kind != "tool"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("been", "bin"),
        ("blew", "blue"),
        ("plays", "place"),
        ("Leigh", "lay"),
        ("wight", "white"),
        ("expresso", "espresso"),
    ],
)
def test_words_that_sound_alike(one: str, other: str) -> None:
    assert alike(one.lower(), other) >= 0.85


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("in", "it"),
        ("light", "white"),
        ("bed", "red"),
        ("late", "lay"),
        ("light", "dark"),
        ("large", "latte"),
        ("play", "place"),
    ],
)
def test_words_that_do_not(one: str, other: str) -> None:
    assert likeness(one, other) == 0.0


def own(folder: Path, *tools: dict[str, Any]) -> ToolSet:
    path = folder / "tools.json"
    path.write_text(json.dumps(tools), encoding="utf-8")
    return load_tools(path)


def test_two_tools_that_fit_alike_are_neither_called(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"what": {"type": "string", "format": "phrase"}}, "required": ["what"]}
    start = {"name": "start_it", "parameters": schema, "examples": ["start the {what}"]}
    launch = {"name": "launch_it", "parameters": schema, "examples": ["start the {what}", "launch the {what}"]}
    assert understand("start the engine", own(tmp_path, start)).tool == "start_it"
    both = own(tmp_path, start, launch)
    assert (understand("start the engine", both).kind, understand("start the engine", both).tool) == ("answer", None)
    assert understand("launch the engine", both).tool == "launch_it"


def test_two_values_that_sound_alike_are_neither_taken(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"lamp": {"type": "string", "enum": ["bell", "ball", "lantern"]}},
        "required": ["lamp"],
    }
    tools = own(tmp_path, {"name": "dim_lamp", "parameters": schema, "examples": ["dim the bell"]})
    assert understand("dim the bell", tools).params == {"lamp": "bell"}
    assert understand("dim the lanturn", tools).params == {"lamp": "lantern"}
    assert understand("dim the bill", tools).kind != "tool"


def test_a_value_out_of_range_is_missing_and_never_clipped(tmp_path: Path) -> None:
    found = understand("Set the kitchen light to 400", PLAIN)
    assert (found.kind, found.missing, found.params) == ("answer", ("brightness",), {"room": "kitchen"})
    assert understand("Set the kitchen light to 39.5", PLAIN).kind == "answer"  # an integer is asked for
