"""Finding inputs, naming errors, keeping native noise away, and the `devices` verb."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.scripted_host import MIC, RATE, ScriptedHost, ScriptedStream, small_blocks
from voxgate.device.errors import DeviceError
from voxgate.device.portaudio import (
    NO_INPUT_HINT,
    InputDevice,
    _as_device_error,
    find_input,
    list_inputs,
    quiet_native_stderr,
    run_bounded,
)
from voxgate.tui.devices import devices


def test_names() -> None:
    usb, hdmi = InputDevice("USB Mic", "ALSA", 48_000, 1, False), InputDevice("USB Mic Pro", "ALSA", 48_000, 4, True)
    twin = InputDevice("USB Mic", "JACK", 48_000, 1, False)
    assert find_input([usb, hdmi], "usb mic") == usb, "a whole name before a part of one"
    assert find_input([usb, hdmi], "pro") == hdmi
    assert find_input([usb, hdmi], None) == hdmi
    assert find_input([usb, twin], "USB Mic, JACK") == twin
    with pytest.raises(DeviceError) as ambiguous:
        find_input([usb, hdmi, twin, MIC], "usb")
    assert all(name in str(ambiguous.value) for name in ("USB Mic, ALSA", "USB Mic Pro, ALSA", "USB Mic, JACK"))
    assert "Desk" not in str(ambiguous.value)
    with pytest.raises(DeviceError) as ambiguous:
        find_input([usb, twin], "USB Mic")
    assert "USB Mic, JACK" in str(ambiguous.value)
    with pytest.raises(DeviceError, match="Desk Mic, ALSA"):
        find_input([MIC], "studio")
    with pytest.raises(DeviceError, match="no default"):
        find_input([usb], None)
    for wanted in (None, "desk"):
        with pytest.raises(DeviceError, match="no audio input here"):
            find_input([], wanted)
    with pytest.raises(DeviceError):
        find_input([usb], "")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (Exception("Error opening InputStream: Device unavailable", -9985), "in use by another program"),
        (Exception("Unanticipated host error: Device or resource busy", -9999), "in use by another program"),
        (Exception("Error opening InputStream: Invalid sample rate", -9997), "16000 Hz"),
        (Exception("Error opening InputStream: Invalid number of channels", -9998), "it has 2"),
        (Exception("Something else\nand more", -9986), "Something else"),
    ],
)
def test_errors_of_the_host_are_put_plainly(error: Exception, says: str) -> None:
    message = str(_as_device_error(error, MIC, 4, RATE))
    assert message.startswith("Desk Mic: ") and says in message and "\n" not in message
    assert "not found" not in message


def test_bounded_work() -> None:
    assert run_bounded(lambda: 5, 1.0) == 5
    with pytest.raises(ZeroDivisionError):
        run_bounded(lambda: 1 // 0, 1.0)
    with pytest.raises(TimeoutError):
        run_bounded(lambda: time.sleep(60), 0.1)


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, timeout=60
    )


def test_native_noise_goes_to_the_log_and_python_messages_to_the_terminal(tmp_path: Path) -> None:
    log = tmp_path / "native.log"
    done = run_python(
        f"""
import os, sys, pathlib
from voxgate.device.portaudio import quiet_native_stderr
with quiet_native_stderr(pathlib.Path({str(log)!r})):
    with quiet_native_stderr():
        os.write(2, b"ALSA lib noise\\n")
    os.write(2, b"more noise\\n")
    print("a message", file=sys.stderr)
print("after", file=sys.stderr)
os.write(2, b"raw after\\n")
"""
    )
    assert done.returncode == 0
    assert done.stderr == "a message\nafter\nraw after\n"
    assert log.read_text() == "ALSA lib noise\nmore noise\n"


def test_quiet_restores_after_an_error() -> None:
    before = os.fstat(2)
    with pytest.raises(KeyError), quiet_native_stderr():
        assert os.fstat(2).st_ino != before.st_ino
        raise KeyError
    assert os.fstat(2).st_ino == before.st_ino


def test_importing_the_device_floor_loads_no_audio_library() -> None:
    done = run_python(
        """
import sys, pkgutil, importlib
import voxgate.device
for module in pkgutil.iter_modules(voxgate.device.__path__):
    importlib.import_module("voxgate.device." + module.name)
import voxgate.tui.devices
assert "voxgate.device.mic" in sys.modules
for name in ("sounddevice", "soundfile", "soxr", "scipy", "rich", "torch", "onnxruntime"):
    assert name not in sys.modules, name
"""
    )
    assert done.returncode == 0, done.stderr


def test_a_missing_portaudio_is_named_and_only_for_live_capture(tmp_path: Path) -> None:
    (tmp_path / "sounddevice.py").write_text("raise OSError('PortAudio library not found')\n")
    done = run_python(
        """
from voxgate.device.errors import DeviceError
from voxgate.device.mic import MicSource
from voxgate.device.portaudio import list_inputs
for attempt in (MicSource, list_inputs):
    try:
        attempt()
    except DeviceError as error:
        print(error)
""",
        PYTHONPATH=str(tmp_path),
    )
    assert done.stdout.count("apt-get install libportaudio2") == 2, done.stderr


def test_an_empty_host_lists_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert list_inputs(ScriptedHost([])) == []
    for as_json in (True, False):
        assert devices(as_json, probe=True, backend=ScriptedHost([])) == 0
        shown = capsys.readouterr()
        assert shown.out == ("[]\n" if as_json else "")
        assert shown.err == NO_INPUT_HINT + "\n"


def test_devices_as_json_and_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:

    other = InputDevice("Box [hw:1]", "ALSA", 44_100, 4, False, (44_100,))
    assert devices(True, probe=False, backend=ScriptedHost([MIC, other])) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == [
        {"name": "Desk Mic", "host_api": "ALSA", "default_rate": RATE, "channels": 2, "default": True, "rates": []},
        {
            "name": "Box [hw:1]",
            "host_api": "ALSA",
            "default_rate": 44_100,
            "channels": 4,
            "default": False,
            "rates": [44_100],
        },
    ]
    assert shown.err == ""
    assert devices(False, probe=False, backend=ScriptedHost([MIC, other])) == 0
    table = capsys.readouterr().out
    assert "Box [hw:1]" in table and "44.1" in table and "Desk Mic" in table


@pytest.mark.parametrize(("claims", "takes", "opened"), [(32, 16, 16), (32, 6, 6), (32, 0, 0), (4, 4, 4), (4, 2, 0)])
def test_a_probe_hears_all_channels_that_can_be_opened(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, claims: int, takes: int, opened: int
) -> None:
    monkeypatch.setattr("voxgate.tui.devices.PROBE_SECONDS", 0.1)
    refusal = Exception("Error opening InputStream: Invalid number of channels", -9998)

    class Plugin(ScriptedHost):
        def open(self, device: InputDevice, channels: int, rate: int, *rest: Any) -> ScriptedStream:  # type: ignore[override]
            if channels > takes:
                raise _as_device_error(refusal, device, channels, rate)
            return super().open(device, channels, rate, *rest)

    assert devices(True, probe=True, backend=small_blocks(Plugin([replace(MIC, channels=claims)]))) == 0
    out, err = capsys.readouterr()
    (row,) = json.loads(out)
    assert [report["channel"] for report in row["probe"]] == list(range(opened))
    assert (row["error"] is None) == bool(opened) and ("claims 32 channels" in err) == (claims == 32 and opened > 0)


def test_probing_goes_on_after_an_input_that_does_not_open(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxgate.tui.devices.PROBE_SECONDS", 0.2)

    class Busy(ScriptedHost):
        def open(self, device: InputDevice, *rest: Any) -> ScriptedStream:  # type: ignore[override]
            if device.name == "Taken":
                raise DeviceError("Taken: in use by another program: close that one first")
            return super().open(device, *rest)

    host = small_blocks(Busy([replace(MIC, name="Taken"), MIC]))
    assert devices(True, probe=True, backend=host) == 0
    taken, free = json.loads(capsys.readouterr().out)
    assert "in use by another program" in taken["error"] and taken["probe"] == []
    assert free["error"] is None
    assert [row["state"] for row in free["probe"]] == ["dc", "dc"]
    assert devices(False, probe=True, backend=host) == 0
    assert "in use" in capsys.readouterr().out
