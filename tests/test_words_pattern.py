"""Commands of fixed form: their automata, and what the recogniser makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from voxgate.models.evidence import Floats
from voxgate.models.tools.schema import ToolSet, load_tools
from voxgate.models.tools.understand import understand
from voxgate.models.words.bias import enum_words
from voxgate.models.words.moonshine import (
    FIRST_TEXT,
    TOKENS,
    MoonshineRecogniser,
    available,
    model_files,
    read_tokens,
)
from voxgate.models.words.pattern import Automaton, ClosedPattern, closed_patterns
from voxgate.models.words.second_pass import (
    LEAST_AHEAD,
    LEAST_MEAN,
    LEAST_TOKEN,
    MOST_WORSE,
    Sentence,
    best_sentences,
    clear_winner,
)
from voxgate.models.words.worker import RecogniserProcess

DATA = Path(__file__).parent / "data"
needs_weights = pytest.mark.skipif(not available(), reason="moonshine-voice has no wheel for this system")

LAMP: dict[str, Any] = {
    "room": {"type": "string", "enum": ["kitchen", "livingRoom"]},
    "state": {"type": "string", "enum": ["on", "off"]},
    "level": {"type": "integer", "enum": [1, 2]},
    "note": {"type": "string"},
}
Made = Callable[..., list[ClosedPattern]]


@pytest.fixture
def patterns_of(tmp_path: Path) -> Made:
    def made(*examples: str, required: tuple[str, ...] = ("room", "state")) -> list[ClosedPattern]:
        tool = {
            "name": "lamp",
            "parameters": {"type": "object", "properties": LAMP, "required": list(required)},
            "examples": list(examples),
        }
        file = tmp_path / "tools.json"
        file.write_text(json.dumps([tool]), encoding="utf-8")
        return closed_patterns(load_tools(file))

    return made


def grid() -> ToolSet:
    return load_tools(Path(__file__).parents[1] / "bench" / "grid_tools.json")


def sound(name: str) -> Floats:
    return np.asarray(soundfile.read(DATA / name, dtype="float32")[0], np.float32)


def test_only_closed_and_complete_examples_make_patterns(patterns_of: Made) -> None:
    (pattern,) = patterns_of("(turn|switch) [please] the {room} lamp {state}")
    assert pattern.tool == "lamp"
    assert ClosedPattern.from_json(json.loads(json.dumps(pattern))) == pattern
    assert patterns_of("turn the kitchen lamp on") == []  # an instance: its values have no names
    assert patterns_of("turn the {room} lamp {state} because {note}") == []  # open
    assert patterns_of("turn the {room} lamp {state} {_}") == []
    assert patterns_of("turn the {room} lamp to {level}") == []  # a required parameter is missing
    assert patterns_of("turn the {room} lamp [{state}]") == []  # or may be
    assert patterns_of("lamp {room} {state}") == []  # too short
    assert closed_patterns(load_tools()) == []  # the bundled tools take free words
    assert closed_patterns(ToolSet(())) == []


SMALL = [b"<unk>", b"<s>", b"</s>"]
LETTERS = [bytes([letter]) for letter in range(33, 127)]
MARK = "\u2581".encode()
SMALL += [*LETTERS, MARK]
END = 2


def spelled(text: str) -> list[int]:
    """One token a character, as the small token list has it."""
    return [SMALL.index(char.encode()) for char in text.replace(" ", "\u2581")]


def paths(automaton: Automaton, tokens: list[int]) -> set[tuple[str, tuple[str, ...], str | None]]:
    """Words, slots and completed tool of every path that reads the tokens."""
    slots_so_far: tuple[str, ...] = ()
    places = [(automaton.start, "", slots_so_far)]
    for token in tokens:
        places = [
            (place, f"{words} {more}".strip(), (*slots, slot) if slot else slots)
            for here, words, slots in places
            for number, place, more, slot in here.steps
            if number == token
        ]
    return {(words, slots, place.ends) for place, words, slots in places}


def test_the_automaton_reads_sentences_as_a_recogniser_writes_them(patterns_of: Made) -> None:
    automaton = Automaton(patterns_of("[please] set {room} to {level} {state}"), SMALL, 3)
    whole = {("set living room to two on", ("room=livingRoom", "level=2", "state=on"), "lamp")}
    for written in (
        "\u2581set\u2581living\u2581room\u2581to\u2581two\u2581on",
        "\u2581Set\u2581Living\u2581Room\u2581to\u25812,\u2581on.",
        "\u2581set\u2581living\u2581room,\u2581to2\u2581on!",
    ):
        assert paths(automaton, spelled(written)) == whole
    assert {path[2] for path in paths(automaton, spelled("\u2581please\u2581set\u2581kitchen"))} == {None}
    for other in ("\u2581set\u2581hall", "\u2581kitchen", "\u2581set,,", "\u2581set."):
        assert paths(automaton, spelled(other)) == set()


def test_a_sentence_is_known_by_its_words(patterns_of: Made) -> None:
    automaton = Automaton(patterns_of("[please] set {room} to {level} {state}"), SMALL, 3)
    assert automaton.accepts("Set living room to 2, on.")
    assert automaton.accepts("Please set kitchen to one off")
    for other in (
        "",
        "Set kitchen to three on.",
        "Set kitchen to one",
        "Set kitchen to one off again",
        "set the kitchen",
    ):
        assert not automaton.accepts(other)


def test_the_search_finds_the_likeliest_sentence_of_each_call(patterns_of: Made) -> None:
    automaton = Automaton(patterns_of("set {room} to {level} {state}"), SMALL, 3)
    said = [*spelled("\u2581set\u2581kitchen\u2581to\u2581two\u2581off"), END]
    rival = spelled("\u2581set\u2581kitchen\u2581to\u2581two\u2581on")
    steps: list[list[int]] = []

    def row(at: int) -> Floats:
        logprobs = np.full(len(SMALL), -20.0, np.float32)
        if at < len(rival):
            logprobs[rival[at]] = -2.0
        if at == len(rival):
            logprobs[END] = -0.25
        logprobs[said[min(at, len(said) - 1)]] = -0.25
        return logprobs

    def advance(ids: list[int], rows: list[int]) -> Floats:
        steps.append(ids)
        return np.stack([row(len(steps)) for _ in rows])

    best, second = best_sentences(automaton, row(0), advance, END, -60.0)[:2]
    assert best.words == "set kitchen to two off"
    assert best.call == ("lamp", "level=2", "room=kitchen", "state=off")
    assert best.count == len(said) and best.logprob == pytest.approx(-0.25 * len(said)) and best.worst == -0.25
    assert second.call[-1] == "state=on" and second.worst == -2.0
    steps.clear()
    assert best_sentences(automaton, row(0), advance, END, -1.0) == []
    assert len(steps) == 4  # given up when the fifth token falls below the least


def test_a_sentence_must_be_clear_in_every_way() -> None:
    def sentence(logprob: float, worst: float = -2.0, call: str = "a") -> Sentence:
        return Sentence("set white with eight now", (call,), logprob, 9, worst)

    text, free = "That white with 8 now.", -5.0
    best = sentence(free - MOST_WORSE + 0.1)
    assert clear_winner([sentence(9 * LEAST_MEAN - 0.1)], text, 9 * LEAST_MEAN) is None
    assert clear_winner([best], text, free) == best
    assert clear_winner([], text, free) is None
    assert clear_winner([sentence(free - MOST_WORSE - 0.1)], text, free) is None
    assert clear_winner([best, sentence(best.logprob - LEAST_AHEAD - 0.1, call="b")], text, free) == best
    assert clear_winner([best, sentence(best.logprob - LEAST_AHEAD + 0.1, call="b")], text, free) is None
    assert clear_winner([sentence(free, LEAST_TOKEN - 0.1)], text, free) is None
    assert clear_winner([best], "That white with 80 now.", free) is None  # another number was written


@pytest.fixture(scope="module")
def recogniser() -> MoonshineRecogniser:
    return MoonshineRecogniser(enum_words(grid()), closed_patterns(grid()))


MENDED = {
    "mended-1": "set red at I five soon",
    "mended-2": "set red in M two please",
    "mended-3": "set green by R nine soon",
}


@needs_weights
@pytest.mark.parametrize("name", MENDED)
def test_a_misheard_command_is_mended(name: str, recogniser: MoonshineRecogniser) -> None:
    samples = sound(f"commands/{name}.flac")
    free = MoonshineRecogniser(enum_words(grid())).decode(samples)
    assert understand(free.text, grid()).kind != "tool"
    decoded = recogniser.decode(samples)
    assert decoded.text == MENDED[name]
    assert decoded.mean_logprob == free.mean_logprob
    understood = understand(decoded.text, grid())
    assert understood.kind == "tool"
    assert list(understood.params.values()) == MENDED[name].split()


@needs_weights
@pytest.mark.parametrize("name", ["other-number", "broken-off"])
def test_nothing_is_guessed(name: str, recogniser: MoonshineRecogniser) -> None:
    """A value that is none of the listed ones, and a command without its last word."""
    samples = sound(f"commands/{name}.flac")
    decoded = recogniser.decode(samples)
    assert decoded == MoonshineRecogniser(enum_words(grid())).decode(samples)
    assert understand(decoded.text, grid()).kind != "tool"


@needs_weights
def test_other_speech_stays(recogniser: MoonshineRecogniser) -> None:
    free = MoonshineRecogniser(enum_words(grid()))
    for name in ("heart/command-1", "joe/command-3", "kumo/command-4", "heart/enrol-2", "tebukuro-alpha/enrol-4"):
        samples = sound(f"voices/{name}.flac")
        assert recogniser.decode(samples) == free.decode(samples)
    assert recogniser.decode(np.zeros(16_000, np.float32)).text == ""


@needs_weights
def test_the_tokens_of_the_model_spell_the_patterns() -> None:
    files = model_files()
    assert files is not None
    tokens = read_tokens(files[TOKENS])
    automaton = Automaton(closed_patterns(grid()), tokens, FIRST_TEXT)
    written = ["\u2581Bin", "\u2581blue", "\u2581at", "\u2581F", "2", "\u2581now", "."]
    last = {token: number for number, token in enumerate(tokens)}  # a character's byte comes before its token
    found = paths(automaton, [last[token.encode()] for token in written])
    assert {(words, ends) for words, _, ends in found} == {("bin blue at F two now", "move_piece")}


@needs_weights
def test_patterns_reach_the_process_of_its_own(recogniser: MoonshineRecogniser) -> None:
    samples = sound("commands/mended-1.flac")
    with RecogniserProcess(10.0, enum_words(grid()), closed_patterns(grid())) as process:
        process.wait_ready()
        assert process.decode(samples) == recogniser.decode(samples)
