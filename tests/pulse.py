"""A PulseAudio daemon of our own for tests: user-space, no hardware, null sinks whose monitors PortAudio can open.

    with pulse_daemon(tmp_path) as pulse:
        subprocess.Popen([...], env=pulse.env)      # PortAudio reads its environment once: always a process of its own
        pulse.play("s4r16", wav_path)

A sink `s<channels>r<kHz>` is opened for capture by the same name. Wait for the capture's first block before playing:
it comes up to 2 s after the opening, and what plays earlier is not heard. A null sink also swallows the first
milliseconds of what is played into it: begin files with 0.3 s of silence.
"""

from __future__ import annotations

import contextlib
import ctypes.util
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CHANNEL_MAPS = {  # in ALSA's order: with PulseAudio's own, channels arrive silent or mixed
    1: "mono",
    2: "front-left,front-right",
    4: "front-left,front-right,rear-left,rear-right",
    8: "front-left,front-right,rear-left,rear-right,front-center,lfe,side-left,side-right",
}
SINKS = {f"s{channels}r{rate // 1000}": (channels, rate) for channels in CHANNEL_MAPS for rate in (16_000, 48_000)}
CAPTURE = Path(__file__).with_name("pulse_capture.py")


def why_not() -> str | None:
    """What is missing for these tests, or None."""
    missing = [program for program in ("pulseaudio", "pactl", "paplay") if shutil.which(program) is None]
    if ctypes.util.find_library("portaudio") is None:
        missing.append("libportaudio2")
    if not list(Path("/usr/lib").glob("**/libasound_module_pcm_pulse.so")):
        missing.append("libasound2-plugins")
    return f"needs {', '.join(missing)}" if missing else None


def until(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """Poll until the condition gives something true; AssertionError after so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {seconds:g} s")


class PulseDaemon:
    """A running daemon. `env`: what a process needs to use it; `sinks`: name -> (channels, rate)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sinks = dict(SINKS)
        runtime = folder / "run"
        (runtime / "pulse").mkdir(parents=True)
        runtime.chmod(0o700)
        self._socket = folder / "s"
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PULSE_", "DBUS_"))},
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(runtime),
            "PULSE_RUNTIME_PATH": str(runtime / "pulse"),
            "PULSE_SERVER": f"unix:{self._socket}",
        }
        script = [f"load-module module-native-protocol-unix auth-anonymous=1 socket={self._socket}"]
        asoundrc = ["pcm.!default { type pulse }"]
        for name, (channels, rate) in self.sinks.items():
            script.append(
                f"load-module module-null-sink sink_name={name} rate={rate} channels={channels} format=s16le "
                f"channel_map={CHANNEL_MAPS[channels]}"
            )
            asoundrc.append(f"pcm.{name} {{ type pulse device {name}.monitor }}")
        script += ["set-default-sink s1r16", "set-default-source s1r16.monitor"]
        (folder / "default.pa").write_text("\n".join(script) + "\n")
        (folder / ".asoundrc").write_text("\n".join(asoundrc) + "\n")
        self._process: subprocess.Popen[bytes] | None = None
        self._players: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start the daemon, again after `kill` if need be, and wait until it answers."""
        self._socket.unlink(missing_ok=True)
        with (self.folder / "pulse.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["pulseaudio", "-n", "-F", "default.pa", "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no"],
                cwd=self.folder,
                env=self.env,
                stdout=log,
                stderr=log,
            )
        until(self._answers, 15, "the PulseAudio daemon answers")

    def _answers(self) -> bool:
        asked = subprocess.run(["pactl", "list", "short", "sources"], env=self.env, capture_output=True, text=True)
        return asked.returncode == 0 and all(f"{name}.monitor" in asked.stdout for name in self.sinks)

    def play(self, sink: str, wav: Path, wait: bool = True) -> subprocess.Popen[bytes]:
        """Play a file into the sink, channel by channel and unmixed; by default until it has been played."""
        channels, _ = self.sinks[sink]
        player = subprocess.Popen(
            [
                *("paplay", "--no-remix", "--no-remap", f"--channel-map={CHANNEL_MAPS[channels]}"),
                *(f"--device={sink}", str(wav)),
            ],
            env=self.env,
        )
        self._players.append(player)
        if wait:
            assert player.wait(timeout=120) == 0, "paplay failed"
        return player

    def kill(self) -> None:
        """End the daemon without a warning to its clients."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(timeout=10)
            self._process = None

    def stop(self) -> None:
        for player in self._players:
            if player.poll() is None:
                player.kill()
            player.wait(timeout=10)
        self.kill()


@contextlib.contextmanager
def pulse_daemon(tmp_path: Path) -> Iterator[PulseDaemon]:
    """A daemon for the time of the context. Its files lie in `tmp_path`, or beside /tmp where that is too long a path
    for a socket."""
    with contextlib.ExitStack() as stack:
        folder = tmp_path / "pulse"
        if len(str(folder)) > 80:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pulse-"))) / "p"
        folder.mkdir()
        daemon = PulseDaemon(folder)
        try:
            daemon.start()
            yield daemon
        finally:
            daemon.stop()


class Capture:
    """`MicSource` in a process of its own (see pulse_capture.py), telling what happens line by line."""

    def __init__(self, pulse: PulseDaemon, device: str, out: Path, **options: Any) -> None:
        request = {"device": device, "out": str(out), **options}
        self.out = out
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self.told: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, str(CAPTURE), json.dumps(request)],
            env=pulse.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(json.loads(line))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)

    def wait_for(self, kind: str, seconds: float = 10.0) -> dict[str, Any]:
        """The next line of that kind, others are kept in `told`."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {kind!r} within {seconds:g} s; told {self.told}, {self.errors}") from None
            self.told.append(line)
            if line["kind"] == kind:
                return line

    def stop(self, seconds: float = 10.0) -> dict[str, Any]:
        """Ask it to end and return its summary."""
        assert self.process.stdin is not None
        self.process.stdin.write("stop\n")
        self.process.stdin.flush()
        summary = self.wait_for("summary", seconds)
        self.process.wait(timeout=seconds)
        return summary

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *unused: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=10)
        for thread in self._threads:
            thread.join(timeout=5)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
