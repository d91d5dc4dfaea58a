"""PortAudio through sounddevice: finding inputs by name, opening them, and keeping native noise off the terminal.

Nothing here runs at import; sounddevice is imported inside functions, for it loads the native library.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from voxgate.device.arrays import MOST_CHANNELS
from voxgate.device.errors import DeviceError

RATES_TO_TRY = (8_000, 16_000, 44_100, 48_000, 96_000)

NO_INPUT_HINT = (
    "no audio input here: plug in a microphone or start the sound server, or give recordings (`voxgate run`)"
)

_BUSY_CODES = frozenset({-9985})  # paDeviceUnavailable
_RATE_CODE = -9997  # paInvalidSampleRate
_CHANNELS_CODE = -9998  # paInvalidChannelCount

Result = TypeVar("Result")
Callback = Callable[[NDArray[Any], bool], None]
"""Called with PCM (n, channels), valid during the call alone, and whether the host reported lost input."""


class ChannelCountError(DeviceError):
    """The input is there, but does not open with so many channels."""


@dataclass(frozen=True, slots=True)
class InputDevice:
    """An audio input. `rates`: those of 8, 16, 44.1, 48 and 96 kHz that it opens at, empty where not asked."""

    name: str
    host_api: str
    default_rate: int
    channels: int
    default: bool
    rates: tuple[int, ...] = ()

    @property
    def full_name(self) -> str:
        return f"{self.name}, {self.host_api}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"rates": list(self.rates)}


class Stream(Protocol):
    """An open input that calls back once started."""

    def start(self) -> None: ...

    def shut(self) -> None:
        """Stop and close. May hang where the host hangs."""
        ...


class Backend(Protocol):
    """What `MicSource` needs of an audio host."""

    def refresh(self) -> None: ...

    def inputs(self) -> list[InputDevice]: ...

    def open(
        self,
        device: InputDevice,
        channels: int,
        rate: int,
        block_samples: int,
        dtype: str,
        callback: Callback,
        finished: Callable[[], None],
    ) -> Stream: ...

    def abandon(self) -> None:
        """A stream hangs: do nothing at exit that would wait for it."""
        ...


_quiet_lock = threading.Lock()
_quiet_depth = 0
_quiet_undo: Callable[[], None] | None = None


@contextlib.contextmanager
def quiet_native_stderr(log: Path | None = None) -> Iterator[None]:
    """Send what native libraries write to file descriptor 2 to `log` (appended), or nowhere.

    Python's own `sys.stderr` goes on to the terminal. May be nested and entered from several threads: the outermost
    entry decides where to and the last exit restores.
    """
    global _quiet_depth, _quiet_undo
    with _quiet_lock:
        if _quiet_depth == 0:
            _quiet_undo = _redirect(log)
        _quiet_depth += 1
    try:
        yield
    finally:
        with _quiet_lock:
            _quiet_depth -= 1
            if _quiet_depth == 0 and _quiet_undo is not None:
                _quiet_undo()
                _quiet_undo = None


def _redirect(log: Path | None) -> Callable[[], None]:
    python_stderr = sys.stderr
    try:
        kept = os.dup(2)
    except OSError:  # no descriptor 2 at all: nothing to keep quiet
        return lambda: None
    if python_stderr is not None:
        python_stderr.flush()
    target = os.open(log or os.devnull, os.O_WRONLY | (os.O_CREAT | os.O_APPEND if log else 0), 0o600)
    os.dup2(target, 2)
    os.close(target)
    moved = None
    try:
        if python_stderr is not None and python_stderr.fileno() == 2:
            encoding, errors = python_stderr.encoding, python_stderr.errors
            moved = os.fdopen(os.dup(kept), "w", buffering=1, encoding=encoding, errors=errors)
            sys.stderr = moved
    except (OSError, ValueError):  # a replaced stderr without a descriptor is not on the terminal
        pass

    def undo() -> None:
        if moved is not None:
            if sys.stderr is moved:
                sys.stderr = python_stderr
            moved.close()
        os.dup2(kept, 2)
        os.close(kept)

    return undo


def run_bounded(work: Callable[[], Result], seconds: float) -> Result:
    """Run `work` in a daemon thread and wait at most so long. Raises TimeoutError, or what `work` raised."""
    results: list[Result] = []
    errors: list[BaseException] = []

    def body() -> None:
        try:
            results.append(work())
        except BaseException as error:  # handed to the caller below
            errors.append(error)

    thread = threading.Thread(target=body, name="voxgate-bounded", daemon=True)
    thread.start()
    thread.join(seconds)
    if results:
        return results[0]
    if errors:
        raise errors[0]
    raise TimeoutError(f"no answer within {seconds:g} s")


def find_input(inputs: list[InputDevice], wanted: str | None) -> InputDevice:
    """The input of that name; the host's default for None.

    A name matches whole (with or without ", host API"), else as a part; case does not matter. Raises DeviceError that
    lists all matches when there are several, and all inputs when there is none.
    """
    if not inputs:
        raise DeviceError(NO_INPUT_HINT)
    there_are = "; ".join(device.full_name for device in inputs)
    if wanted is None:
        for device in inputs:
            if device.default:
                return device
        raise DeviceError(f"the system names no default input: choose one with --device from: {there_are}")
    name = wanted.strip().casefold()
    exact = [device for device in inputs if name in (device.name.casefold(), device.full_name.casefold())]
    matches = exact or [device for device in inputs if name and name in device.full_name.casefold()]
    if not matches:
        raise DeviceError(f"no audio input named {wanted!r}: there are: {there_are}")
    if len(matches) > 1:
        candidates = "; ".join(device.full_name for device in matches)
        raise DeviceError(f"{wanted!r} means several audio inputs: give one of these names in full: {candidates}")
    return matches[0]


def list_inputs(backend: Backend | None = None, check_rates: bool = True) -> list[InputDevice]:
    """All audio inputs, asked of the host anew; empty where there is none.

    Raises DeviceError where the PortAudio library is missing.
    """
    host = backend or PortAudioBackend()
    host.refresh()
    found = host.inputs()
    if check_rates and isinstance(host, PortAudioBackend):
        found = [replace(device, rates=host.rates_of(device)) for device in found]
    return found


def default_channels(device: InputDevice) -> int:
    """As many as the device has; 1 for a plug-in that takes any number and names an absurd one (ALSA's pulse: 32)."""
    return device.channels if device.channels <= MOST_CHANNELS else 1


class PortAudioBackend:
    """The real host. Raises DeviceError when the native library is missing."""

    _open_streams = 0  # in this process: PortAudio is re-initialised only while there is none

    def __init__(self) -> None:
        with quiet_native_stderr():
            try:
                import sounddevice
            except OSError as error:
                raise DeviceError(
                    "PortAudio is not installed, which live capture needs: apt-get install libportaudio2"
                ) from error
        self._sd: Any = sounddevice

    def refresh(self) -> None:
        """Make PortAudio look for devices again, which it does only when initialised."""
        if PortAudioBackend._open_streams == 0:
            with quiet_native_stderr():
                try:
                    # sounddevice offers this under these names alone.
                    if self._sd._initialized:
                        self._sd._terminate()
                    self._sd._initialize()
                except self._sd.PortAudioError as error:
                    raise DeviceError(f"the audio host does not start ({error}): restart the sound server") from error

    def inputs(self) -> list[InputDevice]:
        with quiet_native_stderr():
            return [device for _, device in self._indexed()]

    def rates_of(self, device: InputDevice) -> tuple[int, ...]:
        """Those of the rates to try at which the device says it would open, with its usual number of channels."""
        good: list[int] = []
        with quiet_native_stderr(), contextlib.suppress(DeviceError):  # it may have gone since it was listed
            index = self._index_of(device)
            for rate in sorted({*RATES_TO_TRY, device.default_rate}):
                with contextlib.suppress(self._sd.PortAudioError):
                    self._sd.check_input_settings(
                        device=index, channels=default_channels(device), dtype="int16", samplerate=rate
                    )
                    good.append(rate)
        return tuple(good)

    def open(
        self,
        device: InputDevice,
        channels: int,
        rate: int,
        block_samples: int,
        dtype: str,
        callback: Callback,
        finished: Callable[[], None],
    ) -> Stream:
        def deliver(indata: NDArray[Any], frames: int, times: Any, status: Any) -> None:
            callback(indata, bool(status.input_overflow))

        with quiet_native_stderr():
            try:
                stream = self._sd.InputStream(
                    device=self._index_of(device),
                    channels=channels,
                    samplerate=rate,
                    blocksize=block_samples,
                    dtype=dtype,
                    callback=deliver,
                    finished_callback=finished,
                )
            except (self._sd.PortAudioError, ValueError) as error:
                raise _as_device_error(error, device, channels, rate) from error
        PortAudioBackend._open_streams += 1
        return _PortAudioStream(self._sd, stream, device)

    def abandon(self) -> None:
        import atexit

        atexit.unregister(self._sd._exit_handler)

    def _indexed(self) -> list[tuple[int, InputDevice]]:
        try:
            hosts = self._sd.query_hostapis()
            devices = list(self._sd.query_devices())
        except self._sd.PortAudioError:
            return []
        default = self._sd.default.device[0]
        if default < 0:
            # The default of the first host API that has one.
            default = next((host["default_input_device"] for host in hosts if host["default_input_device"] >= 0), -1)
        return [
            (
                index,
                InputDevice(
                    name=str(device["name"]),
                    host_api=str(hosts[device["hostapi"]]["name"]),
                    default_rate=round(device["default_samplerate"]),
                    channels=int(device["max_input_channels"]),
                    default=index == default,
                ),
            )
            for index, device in enumerate(devices)
            if device["max_input_channels"] > 0
        ]

    def _index_of(self, device: InputDevice) -> int:
        for index, have in self._indexed():
            if (have.name, have.host_api) == (device.name, device.host_api):
                return index
        raise DeviceError(f"{device.name}: gone: plug it in again")


class _PortAudioStream:
    def __init__(self, sounddevice: Any, stream: Any, device: InputDevice) -> None:
        self._sd = sounddevice
        self._stream = stream
        self._device = device

    def start(self) -> None:
        with quiet_native_stderr():
            try:
                self._stream.start()
            except self._sd.PortAudioError as error:
                channels, rate = self._stream.channels, round(self._stream.samplerate)
                raise _as_device_error(error, self._device, channels, rate) from error

    def shut(self) -> None:
        with quiet_native_stderr():
            # abort, for stop waits for buffers that a lost device never fills
            self._stream.abort(ignore_errors=True)
            self._stream.close(ignore_errors=True)
        PortAudioBackend._open_streams -= 1


def _as_device_error(error: Exception, device: InputDevice, channels: int, rate: int) -> DeviceError:
    text = str(error)
    code = error.args[1] if len(error.args) > 1 else None
    if code in _BUSY_CODES or "busy" in text.casefold():
        return DeviceError(f"{device.name}: in use by another program: close that one first")
    if code == _RATE_CODE:
        return DeviceError(
            f"{device.name}: does not open at {rate} Hz: leave the rate out (it likes {device.default_rate})"
        )
    if code == _CHANNELS_CODE:
        return ChannelCountError(f"{device.name}: does not open with {channels} channels: it has {device.channels}")
    first_line = text.splitlines()[0] if text else type(error).__name__
    return DeviceError(f"{device.name}: cannot be opened ({first_line}): see `voxgate devices`")
