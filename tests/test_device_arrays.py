"""Array profiles: the built-in ones, generic ones, one's own, and bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from voxgate.device.arrays import array_for, array_from, built_in_arrays, fields_of, load_array
from voxgate.device.errors import InputError

GOOD = 'name = "mine"\nchannels = 2\nroles = ["mic", "reference"]\n'


def test_built_in_arrays_are_those_of_the_contract() -> None:
    facts = {
        name: (array.channels, array.near_radius_m, array.wearable, array.recogniser)
        for name, array in built_in_arrays().items()
    }
    assert facts == {
        "mono": (1, 0.9, False, 0),
        "stereo": (2, 0.9, False, 0),
        "laptop-2": (2, 0.9, False, 0),
        "pendant-4": (4, 0.5, True, 0),
        "respeaker-6": (6, 0.9, False, 0),
        "glasses-8": (8, 0.5, True, 3),
    }
    for name, array in built_in_arrays().items():
        assert load_array(name) == array
        assert array.name == name
        assert array.description


def test_respeaker_roles() -> None:
    array = load_array("respeaker-6")
    assert array.roles == ("processed", "mic", "mic", "mic", "mic", "reference")
    assert array.mics == (1, 2, 3, 4)
    assert array.references == (5,)


def test_by_channel_count() -> None:
    assert array_for(1).name == "mono"
    assert array_for(2).name == "stereo"
    for channels in (3, 7, 16):
        array = array_for(channels)
        assert (array.name, array.channels, array.recogniser) == (f"generic-{channels}", channels, 0)
        assert array.mics == tuple(range(channels))
        assert load_array(array.name) == array
    for channels in (0, 17, -1):
        with pytest.raises(InputError):
            array_for(channels)


def test_profiles_are_frozen() -> None:
    with pytest.raises(ValidationError):
        load_array("mono").channels = 2  # type: ignore[misc]


def test_one_of_your_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD + "positions_m = [[0.0, 0.0, 0.01], [0, 0, 0]]\n")
    array = load_array(path)
    assert (array.name, array.near_radius_m, array.references) == ("mine", 0.9, (1,))
    assert array.positions_m is not None and array.positions_m[0] == (0.0, 0.0, 0.01)
    path.write_text(GOOD.replace("mine", "other"))
    assert load_array(str(path)).name == "other", "an edited file is read again"


def test_what_is_kept_of_ones_own_gives_it_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD + "safe_turn_seconds = 0.8\npositions_m = [[0.0, 0.0, 0.01], [0, 0, 0]]\n")
    array = load_array(path)
    assert array_from(json.loads(json.dumps(fields_of(array))), "profile") == array
    assert [fields_of(load_array(name)) for name in (*built_in_arrays(), "generic-5")] == [None] * 7
    for fields in (5, {}, {**array.model_dump(mode="json"), "name": "mono"}):
        with pytest.raises(InputError, match=r"^profile: "):
            array_from(fields, "profile")


def test_unknown_names_list_what_exists(tmp_path: Path) -> None:
    for name in ("respeaker", "generic-17", "generic-0", "", "../mono"):
        with pytest.raises(InputError) as caught:
            load_array(name)
        for known in (*built_in_arrays(), "generic-N"):
            assert known in str(caught.value)
    with pytest.raises(InputError, match=r"none\.toml"):
        load_array(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name = ", "not TOML"),
        (GOOD.replace("2", "3"), "3 channels but 2 roles"),
        (GOOD.replace("reference", "loudspeaker"), "roles.1"),
        (GOOD + "recogniser = 2\n", "recogniser"),
        (GOOD + "recogniser = 1\n", "reference, not a microphone"),
        (GOOD + "near_radius_m = 0\n", "near_radius_m"),
        (GOOD + "near_radius_m = nan\n", "near_radius_m"),
        (GOOD + "colour = 1\n", "colour: no such key, there are name, description, channels"),
        (GOOD.replace("channels", "channel"), "channel: no such key, did you mean channels"),
        (GOOD + "near_radius = 0.5\n", "near_radius: no such key, did you mean near_radius_m"),
        ("[array]\n" + GOOD, "array: no such key"),
        (GOOD.replace("2", '"2"'), "channels: Input should be a valid integer, not '2'"),
        (GOOD.replace("2", "2.0"), "channels: "),
        (GOOD + "recogniser = false\n", "recogniser: Input should be a valid integer, not False"),
        (GOOD + 'near_radius_m = "0.9"\n', "near_radius_m: Input should be a valid number, not '0.9'"),
        (GOOD + "near_radius_m = true\n", "near_radius_m: "),
        (GOOD + "near_radius_m = inf\n", "near_radius_m: "),
        (GOOD + "safe_turn_seconds = nan\n", "safe_turn_seconds: "),
        (GOOD + "safe_turn_seconds = 1e-9\n", "safe_turn_seconds: "),
        (GOOD + "safe_turn_seconds = 2.6\n", "safe_turn_seconds: "),
        (GOOD + "near_radius_m = " + "1" * 5000, "not TOML"),
        (GOOD + "near_radius_m = " + "1" * 400, "near_radius_m: "),
        (GOOD + "positions_m = " + "[" * 5000 + "]" * 5000, "not TOML"),
        (GOOD + "x." * 900 + "y = 1", "nested too deeply"),
        (GOOD.replace("mine", "glasses-8"), "glasses-8 is an array that ships with voxgate: choose another name"),
        (GOOD.replace("mine", "generic-4"), "generic-4 is an array that ships with voxgate: choose another name"),
        (GOOD + "wearable = 1\n", "wearable: Input should be a valid boolean, not 1"),
        (GOOD.replace('"mine"', "3"), "name: "),
        (GOOD.replace('["mic", "reference"]', '"mic"'), "roles: Input should be a list, not 'mic'"),
        (GOOD.replace("roles", "# roles"), "roles: missing"),
        (GOOD + "positions_m = [[0, 0, 0]]\n", "positions_m: 2 channels but 1 positions"),
        (GOOD + "positions_m = [[0, 0, nan], [0, 0, 0]]\n", "positions_m.0.2: "),
        (GOOD + "positions_m = [[0, 0, 0], [0, -inf, 0]]\n", "positions_m.1.1: "),
        (GOOD + "positions_m = [[0, 0], [0, 0, 0]]\n", "positions_m.0.2: missing"),
        (GOOD + "positions_m = [[0, 0, 0], [0, 0, 0, 0]]\n", "positions_m.1: Tuple should have at most 3 items"),
        (GOOD + 'positions_m = [[0, 0, "0"], [0, 0, 0]]\n', "positions_m.0.2: "),
        (GOOD + "positions_m = [0, 0]\n", "positions_m.0: "),
        (GOOD.replace("mine", "Mine!"), "name"),
        ('channels = 0\nname = "a"\nroles = []\n', "channels"),
        ('channels = 17\nname = "a"\nroles = []\n', "channels"),
        ("", "name"),
    ],
)
def test_bad_profiles_name_file_and_field(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_array(path)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe\x00name")
    with pytest.raises(InputError, match="UTF-8"):
        load_array(path)
    with pytest.raises(InputError):
        load_array(tmp_path)
