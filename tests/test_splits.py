"""Training, development and calibration share no speaker, whatever the order or the padding of the names."""

from __future__ import annotations

from voxgate.calib.splits import calibration_speakers, development_speakers, training_speakers


def test_every_speaker_is_in_one_split_and_stays_there() -> None:
    names = [str(number * 7 + 19) for number in range(121)]
    splits = [choose(names) for choose in (training_speakers, development_speakers, calibration_speakers)]
    assert [len(split) for split in splits] == [73, 8, 40]
    assert sorted(name for split in splits for name in split) == sorted(names)
    assert [
        choose(reversed(names)) for choose in (training_speakers, development_speakers, calibration_speakers)
    ] == splits
    padded = [name.zfill(5) for name in names]
    assert training_speakers(padded) == [name.zfill(5) for name in splits[0]]


def test_names_that_are_no_numbers() -> None:
    names = ["b", "a", "10", "9"]
    assert calibration_speakers(names) == ["a"]
    assert training_speakers(names) == ["9", "10", "b"]
