"""A vocabulary that the recogniser leans towards."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxgate.models.evidence import Floats
from voxgate.models.tools.schema import load_tools
from voxgate.models.words.bias import Tokeniser, WordBias, enum_words
from voxgate.models.words.moonshine import FIRST_TEXT, TOKENS, MoonshineRecogniser, available, model_files, read_tokens

VOICES = Path(__file__).parent / "data" / "voices"
MARK = "\u2581".encode()
SPECIAL = [b"<unk>", b"<s>", b"</s>"]
SMALL = [*SPECIAL, MARK, *(bytes([letter]) for letter in b"blue"), MARK + b"b", b"ue", MARK + b"bl", MARK + b"blue"]
SMALL += [MARK + b"x", b".", b"s"]

needs_weights = pytest.mark.skipif(not available(), reason="moonshine-voice has no wheel for this system")


def number(token: bytes) -> int:
    return SMALL.index(token)


def gains(bias: WordBias, spelt: list[bytes], likely: list[bytes]) -> dict[bytes, float]:
    node = bias.root
    for token in spelt:
        node = bias.follow(node, number(token))
    tokens, changes = bias.candidates(node, np.array([number(token) for token in likely], np.int64))
    return {SMALL[token]: change for token, change in zip(tokens.tolist(), changes.tolist(), strict=True)}


def test_text_is_split_by_merge_order() -> None:
    tokenise = Tokeniser(SMALL, 3)
    assert [SMALL[part] for part in tokenise("blue")] == [MARK + b"blue"]
    assert [SMALL[part] for part in Tokeniser([*SMALL[:11], *SMALL[12:]], 3)("bl")] == [MARK + b"bl"]
    assert tokenise("q") == []


def test_a_bonus_is_paid_along_the_word_and_given_back_when_it_breaks_off() -> None:
    tokens = [*SMALL[:11], b"-", *SMALL[12:]]  # without the whole word: "bl" + "ue"
    bias = WordBias(["blue"], tokens, 3, bonus=2.0)
    assert gains(bias, [], [MARK + b"x"])[MARK + b"bl"] == 1.0
    after = gains(bias, [MARK + b"bl"], [MARK + b"x", b"s"])
    assert after[b"ue"] == 1.0
    assert after[MARK + b"x"] == -1.0 and after[b"s"] == -1.0
    whole = gains(bias, [MARK + b"bl", b"ue"], [MARK + b"x", b".", b"s"])
    assert whole[MARK + b"x"] == whole[b"."] == 0.0  # kept
    assert whole[b"s"] == -2.0  # "blues" is another word
    assert whole[MARK + b"bl"] == 1.0  # a second word begins


@needs_weights
def test_the_tokeniser_spells_like_the_model() -> None:
    files = model_files()
    assert files is not None
    tokens = read_tokens(files[TOKENS])
    tokenise = Tokeniser(tokens, FIRST_TEXT)
    for text in ("blue", "Kubernetes", "seventy degrees", "J", "O'Brien", "caf\u00e9"):
        spelt = b"".join(tokens[part] for part in tokenise(text)).decode()
        assert spelt == "\u2581" + text.replace(" ", "\u2581")
    assert len(tokenise("seven")) == 1


def sound(name: str) -> Floats:
    return np.asarray(soundfile.read(VOICES / name, dtype="float32")[0], np.float32)


@needs_weights
def test_a_vocabulary_mends_what_was_misheard_and_leaves_the_rest() -> None:
    plain = MoonshineRecogniser()
    leaning = MoonshineRecogniser(["front door", "unlock", "thermostat", "set", "please"])
    assert "front door" not in plain.decode(sound("tebukuro-alpha/command-2.flac")).text.lower()
    assert leaning.decode(sound("tebukuro-alpha/command-2.flac")).text == "Please unlock the front door."
    for name in ("heart/command-1.flac", "kumo/enrol-1.flac", "heart/enrol-2.flac"):
        assert leaning.decode(sound(name)).text == plain.decode(sound(name)).text


@needs_weights
def test_a_vocabulary_does_not_speak_for_itself() -> None:
    """Words of a vocabulary are not put into speech that has none of them."""
    colours = ["blue", "green", "red", "white", "soon", "again", "place", "bin"]
    leaning = MoonshineRecogniser(colours)
    for name in ("heart/enrol-2.flac", "kumo/enrol-3.flac", "joe/enrol-4.flac", "heart/command-4.flac"):
        words = set(leaning.decode(sound(name)).text.lower().strip(".").split())
        assert not words & set(colours)


def test_only_closed_values_make_a_vocabulary(tmp_path: Path) -> None:
    assert enum_words(load_tools()) == []  # the bundled tools take free words
    tool = {
        "name": "brew",
        "description": "Brew a drink.",
        "parameters": {
            "type": "object",
            "properties": {
                "drink": {"type": "string", "enum": ["house coffee", "mocha"]},
                "milk": {"type": "string", "enum": ["a bit of milk"]},
                "shots": {"type": "integer", "enum": [1, 12]},
                "code": {"type": "string", "enum": ["A", "B"]},
                "note": {"type": "string"},
            },
            "required": ["drink"],
        },
        "examples": ["brew a {drink}"],
    }
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([tool]), encoding="utf-8")
    assert enum_words(load_tools(file)) == ["a", "b", "bit", "coffee", "house", "milk", "mocha", "one", "twelve"]
