"""Microphone arrays: what each channel carries, which one the recogniser hears, how near is near."""

from __future__ import annotations

import difflib
import os
import reprlib
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from voxgate.device.errors import InputError

PROFILES = Path(__file__).parent / "profiles"
MOST_CHANNELS = 16

Role = Literal["mic", "processed", "reference", "unused"]
Position = tuple[float, float, float]


class ArrayProfile(BaseModel):
    """One array. Channels are counted from 0."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="lower-case letters, digits and hyphens")
    description: str = ""
    channels: int = Field(ge=1, le=MOST_CHANNELS)
    roles: tuple[Role, ...]
    """One a channel: `mic` is a raw microphone, `processed` the device's own mix or beam, `reference` what the
    device plays, `unused` nothing."""
    recogniser: int = Field(0, ge=0, description="channel that speech detection, speaker model and recogniser hear")
    near_radius_m: float = Field(0.9, gt=0, le=5, description="speech from within this distance is near")
    safe_turn_seconds: float | None = Field(None, gt=0.3, le=2.5)
    """Speech that a turn must hold before its speaker is known, as measured for this array; None: as the speaker model says
    for one microphone."""
    wearable: bool = False
    """Worn by the speaker: its microphones keep their places relative to the wearer's mouth."""
    positions_m: tuple[Position | None, ...] | None = None
    """Place of each channel's microphone in metres, in axes of the device's own; None where unknown."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.roles) != self.channels:
            raise ValueError(f"roles: {self.channels} channels but {len(self.roles)} roles")
        if self.recogniser >= self.channels:
            raise ValueError(f"recogniser: channel {self.recogniser} of {self.channels} channels, counted from 0")
        if self.roles[self.recogniser] not in ("mic", "processed"):
            raise ValueError(
                f"recogniser: channel {self.recogniser} is {self.roles[self.recogniser]}, not a microphone"
            )
        if self.positions_m is not None and len(self.positions_m) != self.channels:
            raise ValueError(f"positions_m: {self.channels} channels but {len(self.positions_m)} positions")
        return self

    @property
    def mics(self) -> tuple[int, ...]:
        """Channels that carry a raw microphone, in order."""
        return self.with_role("mic")

    @property
    def references(self) -> tuple[int, ...]:
        """Channels that carry what the device plays, in order."""
        return self.with_role("reference")

    def with_role(self, role: Role) -> tuple[int, ...]:
        return tuple(channel for channel, have in enumerate(self.roles) if have == role)


def built_in_arrays() -> dict[str, ArrayProfile]:
    """The arrays that ship with voxgate, by name, the smallest first."""
    arrays = [_read(path) for path in PROFILES.glob("*.toml")]
    return {array.name: array for array in sorted(arrays, key=lambda array: (array.channels, array.name))}


def load_array(name_or_path: str | Path) -> ArrayProfile:
    """A built-in array by name, or one of your own by the path of its TOML file.

    Raises InputError that lists what exists for an unknown name, and names file and field for a bad file.
    """
    text = str(name_or_path)
    shipped = _shipped(text)
    if shipped is not None:
        return shipped
    path = Path(text)
    if path.suffix == ".toml" or os.path.isfile(path):  # unlike `Path.is_file` no error for a name that is too long
        return _own(_read(path), str(path))
    known = ", ".join(built_in_arrays())
    raise InputError(f"no array profile {text!r}: there are {known}, generic-N (1 to {MOST_CHANNELS}), or a .toml file")


def array_from(fields: Any, source: str) -> ArrayProfile:
    """An array of one's own from the keys and values of its file, as `fields_of` gives them.

    Raises InputError that names `source` and what is wrong.
    """
    return _own(_validated(fields, source), source)


def fields_of(array: ArrayProfile) -> dict[str, Any] | None:
    """What must be kept of an array to have it again; None for the arrays that a name is enough for."""
    return None if _shipped(array.name) is not None else array.model_dump(mode="json")


def array_for(channels: int) -> ArrayProfile:
    """What to assume of a source that nothing else is known of: `mono`, `stereo`, or as many equal microphones.

    Raises InputError unless 1 <= channels <= 16.
    """
    if not 1 <= channels <= MOST_CHANNELS:
        raise InputError(f"{channels} channels, but an array has 1 to {MOST_CHANNELS}")
    plain = {1: "mono", 2: "stereo"}.get(channels)
    return load_array(plain) if plain else _generic(channels)


def _built_in_names() -> set[str]:
    return {path.stem for path in PROFILES.glob("*.toml")}


def _shipped(name: str) -> ArrayProfile | None:
    """The array that voxgate means by a name, None for other names."""
    if name in _built_in_names():
        return _read(PROFILES / f"{name}.toml")
    count = name.removeprefix("generic-")
    if count != name and count in map(str, range(1, MOST_CHANNELS + 1)):
        return _generic(int(count))
    return None


def _own(array: ArrayProfile, source: str) -> ArrayProfile:
    """The array, unless it takes the name of another: enrolments and judges know arrays by name."""
    if _shipped(array.name) not in (None, array):
        raise InputError(f"{source}: name: {array.name} is an array that ships with voxgate: choose another name")
    return array


def _generic(channels: int) -> ArrayProfile:
    mic: Role = "mic"
    return ArrayProfile(
        name=f"generic-{channels}",
        description=f"{channels} microphones of which nothing more is known",
        channels=channels,
        roles=(mic,) * channels,
        recogniser=0,
        near_radius_m=0.9,
    )


@lru_cache(maxsize=32)
def _read_text(text: str, source: str) -> ArrayProfile:
    try:
        fields = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: numbers of thousands of digits too
        raise InputError(f"{source}: not TOML ({error}): correct it there") from error
    return _validated(fields, source)


def _validated(fields: Any, source: str) -> ArrayProfile:
    try:
        return ArrayProfile.model_validate(_with_tuples(fields))
    except ValidationError as error:
        raise InputError(f"{source}: {_fault(error)}: correct the array profile") from error
    except RecursionError as error:
        raise InputError(f"{source}: nested too deeply: correct the array profile") from error


def _with_tuples(value: Any) -> Any:
    """TOML has lists where a profile, which nothing coerces, has tuples."""
    if isinstance(value, dict):
        return {key: _with_tuples(inner) for key, inner in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def _fault(error: ValidationError) -> str:
    """The key that is wrong and why. A key that there is not comes first: another one misses it, if it was mistyped."""
    found = error.errors(include_url=False)
    first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
    if first["type"] == "extra_forbidden":
        key, known = str(first["loc"][0]), list(ArrayProfile.model_fields)
        near = difflib.get_close_matches(key, known, 1)
        return f"{key}: no such key, " + (f"did you mean {near[0]}" if near else f"there are {', '.join(known)}")
    # Parts that name a type, not a place, tell the branches of a union apart.
    field = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in ArrayProfile.model_fields)
    if first["type"] == "missing":
        return f"{field}: missing"
    reason = first["msg"].removeprefix("Value error, ").replace("a valid tuple", "a list")
    if field and ", not " not in reason:
        reason += f", not {reprlib.repr(first['input'])}"
    return f"{field}: {reason}" if field else reason


def _read(path: Path) -> ArrayProfile:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(f"{path}: array profile cannot be read ({reason}): check the name") from error
    return _read_text(text, str(path))
