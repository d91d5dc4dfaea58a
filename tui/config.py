"""Settings from all their sources: flag over environment over file over default; and the verb that shows them."""

from __future__ import annotations

import json
import os
import reprlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from voxgate.calib.home import config_file
from voxgate.device.errors import InputError
from voxgate.models.settings import GateSettings

PREFIX = "VOXGATE_"
RESERVED = {"VOXGATE_HOME", "VOXGATE_DATA", "VOXGATE_KEY", "VOXGATE_SESSION"}
"""Environment variables with the prefix that are not settings."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings, and for each where its value came from."""

    settings: GateSettings
    origins: dict[str, str]


def resolve(flags: list[str] | None = None) -> Resolved:
    """`flags`: `name=value` pairs. Raises InputError that names the setting, where it came from and what it may be."""
    layers = [(str(config_file()), _from_file(config_file())), *_from_environment(), *_from_flags(flags or [])]
    values: dict[str, Any] = {}
    origins = dict.fromkeys(GateSettings.model_fields, "default")
    for origin, layer in layers:
        for name, value in layer.items():
            if name not in GateSettings.model_fields:
                raise InputError(f"{origin}: no setting {name!r}; `voxgate config show` lists them")
            values[name] = value
            origins[name] = origin
    try:
        # Only text, from the environment or a flag, is read as what it may mean; a file has kinds of values of its own.
        from_file = {name: value for name, value in values.items() if origins[name] == str(config_file())}
        GateSettings.model_validate(from_file, strict=True)
        return Resolved(GateSettings.model_validate(values), origins)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        raise InputError(f"{origins[name]}: {name} = {reprlib.repr(first['input'])}: {first['msg'].lower()}") from error


def _from_file(path: Path) -> dict[str, Any]:
    if not os.path.lexists(path):
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a settings file ({error}); correct or remove it") from error


def _from_environment() -> list[tuple[str, dict[str, Any]]]:
    names = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in RESERVED)
    return [(name, {name.removeprefix(PREFIX).lower(): os.environ[name]}) for name in names]


def _from_flags(flags: list[str]) -> list[tuple[str, dict[str, Any]]]:
    layers: list[tuple[str, dict[str, Any]]] = []
    for flag in flags:
        name, equals, value = flag.partition("=")
        if not equals:
            raise InputError(f"--set {flag}: write it as NAME=VALUE, such as --set endpoint_seconds=0.6")
        layers.append((f"--set {flag}", {name.strip().lower(): value.strip()}))
    return layers


def show(flags: list[str], json_output: bool) -> int:
    """Print every setting, its value and where that came from."""
    resolved = resolve(flags)
    rows = [
        {
            "name": name,
            "value": getattr(resolved.settings, name),
            "origin": resolved.origins[name],
            "description": field.description or "",
        }
        for name, field in GateSettings.model_fields.items()
    ]
    if json_output:
        print(json.dumps(rows, indent=2))
        return 0
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(f"settings (file: {config_file()})"))
    table.add_column("setting", no_wrap=True)  # this is what one has to type
    for name in ("value", "from", "meaning"):
        table.add_column(name, overflow="fold")
    for row in rows:
        value = "unset" if row["value"] is None else str(row["value"])
        table.add_row(row["name"], Text(value), Text(row["origin"]), row["description"])
    Console().print(table)
    return 0
