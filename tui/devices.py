"""`voxgate devices`: which audio inputs there are, and what their channels carry."""

from __future__ import annotations

import json
import sys
from typing import Any

from voxgate.device.arrays import MOST_CHANNELS, array_for
from voxgate.device.errors import DeviceError
from voxgate.device.health import ChannelReport
from voxgate.device.mic import probe_input
from voxgate.device.portaudio import NO_INPUT_HINT, Backend, ChannelCountError, InputDevice, list_inputs

PROBE_SECONDS = 1.0


def devices(json_output: bool, probe: bool, backend: Backend | None = None) -> int:
    """Print the inputs on stdout, as a table or as JSON; messages go to stderr. Returns the exit status, always 0.

    `probe` listens to each input for a second; one that cannot be opened says why and stops none of the others. A
    host without inputs gives an empty list and one line of advice. Raises DeviceError where PortAudio is missing.
    """
    found = list_inputs(backend)
    if not found:
        print(NO_INPUT_HINT, file=sys.stderr)
    rows: list[dict[str, Any]] = []
    probes: list[tuple[InputDevice, list[ChannelReport], str | None]] = []
    for device in found:
        row = device.as_json()
        if probe:
            print(f"listening to {device.full_name}", file=sys.stderr)
            reports, error = _probe(device, backend)
            probes.append((device, reports, error))
            row["probe"] = [report.as_json() for report in reports]
            row["error"] = error
        rows.append(row)
    if json_output:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif found:
        _print_inputs(found)
        if probe:
            _print_probes(probes)
    return 0


def _probe(device: InputDevice, backend: Backend | None) -> tuple[list[ChannelReport], str | None]:
    """All channels; of a plug-in that claims more than can be read, as many as it opens with."""
    refused = ""
    for channels in range(min(device.channels, MOST_CHANNELS), 0, -1):
        try:
            reports = probe_input(device.full_name, PROBE_SECONDS, profile=array_for(channels), backend=backend)
        except ChannelCountError as error:
            refused = refused or str(error)
            if device.channels <= MOST_CHANNELS:
                break
        except DeviceError as error:
            return [], str(error)
        else:
            if device.channels > MOST_CHANNELS:
                print(
                    f"{device.full_name} claims {device.channels} channels, as sound servers do, and opened with "
                    f"{channels}: those that its microphone lacks are silent or mixed from the others",
                    file=sys.stderr,
                )
            return reports, None
    return [], refused


def _print_inputs(found: list[InputDevice]) -> None:
    from rich.table import Table

    table = Table(title="Audio inputs", title_justify="left")
    table.add_column("name", overflow="fold")
    table.add_column("host API")
    table.add_column("channels", justify="right")
    table.add_column("default rate, Hz", justify="right")
    table.add_column("opens at, kHz", overflow="fold")
    table.add_column("default")
    for device in found:
        rates = ", ".join(f"{rate / 1000:g}" for rate in device.rates) or "none"
        mark = "default" if device.default else ""
        table.add_row(device.name, device.host_api, str(device.channels), str(device.default_rate), rates, mark)
    _console().print(table)


def _print_probes(probes: list[tuple[InputDevice, list[ChannelReport], str | None]]) -> None:
    from rich.table import Table

    table = Table(title=f"{PROBE_SECONDS:g} s of each", title_justify="left")
    table.add_column("name", overflow="fold")
    for heading in ("channel", "level, dBFS", "peak, dBFS", "zeros", "clipped", "DC"):
        table.add_column(heading, justify="right")
    table.add_column("state", overflow="fold")
    for device, reports, error in probes:
        if error is not None:
            table.add_row(device.name, "", "", "", "", "", "", error)
        for report in reports:
            table.add_row(
                device.name,
                str(report.channel),
                _level(report.level_dbfs),
                _level(report.peak_dbfs),
                f"{report.zeros:.1%}",
                f"{report.clipped:.2%}",
                f"{report.dc:+.4f}",
                report.state,
            )
    _console().print(table)


def _console() -> Any:
    from rich.console import Console

    # Markup off: names of devices may hold square brackets.
    return Console(markup=False, highlight=False)


def _level(level_dbfs: float | None) -> str:
    return "-" if level_dbfs is None else f"{level_dbfs:.1f}"
