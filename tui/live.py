"""The main job on a microphone array, or on a file paced in real time."""

from __future__ import annotations

import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from voxgate.device.arrays import load_array
from voxgate.device.blocks import AudioBlock, Flag, Source, SourceFault
from voxgate.device.files import FileSource
from voxgate.device.mic import MicSource
from voxgate.device.portaudio import quiet_native_stderr
from voxgate.models.events import Block, Decision, Event, Fault, Summary
from voxgate.models.evidence import Recogniser, WordsLost
from voxgate.models.extractors import load_extractors
from voxgate.models.session import Session
from voxgate.models.settings import GateSettings
from voxgate.models.tools.schema import ToolSet
from voxgate.models.words.bias import enum_words
from voxgate.models.words.moonshine import available
from voxgate.models.words.pattern import closed_patterns
from voxgate.models.words.worker import RecogniserProcess
from voxgate.tui.config import resolve
from voxgate.tui.running import execution_status, make_job, make_sinks, refuse_overwriting
from voxgate.tui.sinks import Sink, Transcript, decision_line, percent, summary_line
from voxgate.tui.speaker_model import (
    speaker_folder,
    warn_if_uncalibrated,
    warn_of_enrolment,
    warn_of_threshold,
    warn_without_change_model,
)

DEVICE_TROUBLE = 3
TABLE_ROWS = 7
INTERRUPTED = 130


class _Stop:
    """The first Ctrl-C or SIGTERM asks for an orderly end, the next one ends at once."""

    def __init__(self) -> None:
        self.asked = False
        self.on_ask: Callable[[], None] = lambda: None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self.on_ask()


class LiveTable:
    """A table that follows the session: what is heard now, and the last decisions."""

    def __init__(self, console: Console, title: str) -> None:
        self._title = title
        self._block: Block | None = None
        self._console = console
        self._lines: deque[Text] = deque(maxlen=100)
        self._pending: dict[int, Text] = {}
        self._live = Live(self._render(), console=console, refresh_per_second=8, transient=False)
        self._live.start()

    def take(self, event: Event) -> None:
        if isinstance(event, Block):
            self._block = event
        elif isinstance(event, Decision):
            self._decided(event)
        elif isinstance(event, Fault):
            self._lines.append(Text(f"{event.t:7.2f} s  fault    {event.code}: {event.message}", "bold red"))
        elif isinstance(event, Summary):
            self._lines.append(summary_line(event))
        self._live.update(self._render())

    def close(self) -> None:
        self._live.stop()

    def _decided(self, decision: Decision) -> None:
        """One line a decision; what became of a pending one takes that one's place."""
        line = decision_line(decision, short=True)
        if decision.status == "pending":
            self._pending[decision.utterance] = line
        before = self._pending.get(decision.utterance) if decision.status != "pending" else None
        if before is not None and before in self._lines:
            self._lines[self._lines.index(before)] = line
        else:
            self._lines.append(line)

    def _render(self) -> Group:
        now = Table(title=Text(self._title), title_justify="left", expand=True)
        for name, width in (("time", 8), ("speech", 6), ("wearer", 6), ("near", 5), ("asked", 5), ("state", 9)):
            now.add_column(name, width=width, no_wrap=True)
        now.add_column("words", no_wrap=True, overflow="ellipsis", ratio=1)
        block = self._block
        if block is None:
            now.add_row("", "", "", "", "", "starting", "")
        else:
            now.add_row(
                f"{block.t:.1f} s",
                "▮" * round(block.speech * 6),
                percent(block.wearer),
                percent(block.near),
                percent(block.addressed),
                block.state,
                Text(block.text),
            )
        # The newest lines that fit: a live display is cut off at the bottom.
        room = max(1, self._console.size.height - TABLE_ROWS)
        lines = list(self._lines)[-room:] or [Text("no decision yet; Ctrl-C ends", "dim")]
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(now, *lines)


def live(
    wearer: str | None = None,
    device: str | None = None,
    input_file: Path | None = None,
    array: str | None = None,
    tools: Path | None = None,
    execute: str | None = None,
    headless: bool = False,
    jsonl: str | None = None,
    settings: list[str] | None = None,
) -> int:
    """Returns 0 at the end of a file, 3 when the device is gone for good, 130 when interrupted."""
    job = make_job(wearer, array, tools, False, settings or [])
    limits = resolve(settings).settings
    refuse_overwriting(jsonl, [input_file] if input_file else [])
    stop = _Stop()
    with ExitStack() as stack:
        if not headless:
            print(f"loading models; {job.title} may act, Ctrl-C ends", file=sys.stderr)
        recogniser = _recogniser(limits.words_timeout_seconds, job.tools, stack)
        stack.enter_context(quiet_native_stderr())  # audio hosts write there whenever they like
        source = _open(input_file, device, array, job.profile.channels if job.profile else None)
        stack.callback(source.close)
        if isinstance(source, MicSource):
            stop.on_ask = source.end  # it may be waiting for a device that gives nothing
        used = job.array_of(source)
        sinks: list[Sink] = [
            sink
            for sink in make_sinks(jsonl, execute, stack, blocks=False)
            if headless or not isinstance(sink, Transcript)
        ]
        if not headless:
            table = LiveTable(Console(stderr=jsonl == "-"), f"voxgate: {source.name}")
            stack.callback(table.close)
            sinks.append(table)
        folder = speaker_folder(settings)
        extractors = load_extractors(recogniser, folder)
        warn_if_uncalibrated(extractors.speaker, folder)
        warn_without_change_model(extractors, folder)
        if job.profile is not None:
            warn_of_threshold(job.profile, extractors.speaker)
        warn_of_enrolment(job.profile, used)
        session = job.session(source, extractors)
        status = 0
        for event in _events(session, source, limits, stop):
            if isinstance(event, SourceFault):
                status = DEVICE_TROUBLE
                continue
            for sink in sinks:
                sink.take(event)
        if status:
            print(f"voxgate: {source.name}: the device is gone; all events up to here are written", file=sys.stderr)
    return status or (INTERRUPTED if stop.asked else execution_status(sinks))


def _recogniser(timeout_seconds: float, tools: ToolSet, stack: ExitStack) -> Recogniser | None:
    """The recogniser in a process of its own, warm before the first sound; None where it has no wheel."""
    if not available():
        return None
    recogniser = RecogniserProcess(timeout_seconds, enum_words(tools), closed_patterns(tools))
    stack.callback(recogniser.close)
    with suppress(WordsLost):  # whatever is asked before it is ready is lost, and said so
        recogniser.wait_ready()
    return recogniser


def _open(input_file: Path | None, device: str | None, array: str | None, own_channels: int | None) -> Source:
    """The file paced in real time, or the microphone with as many channels as the array has. Raises both kinds of error."""
    if input_file is not None:
        return FileSource(input_file, paced=True)
    return MicSource(device, channels=load_array(array).channels if array else own_channels)


def _events(session: Session, source: Source, limits: GateSettings, stop: _Stop) -> Iterator[Event | SourceFault]:
    """Events until the source ends, is gone for good (passed on last) or a stop is asked for; always with the summary.

    Sound that waited too long is marked before the session sees it, so that a replay of the marks decides the same.
    """
    fatal: SourceFault | None = None
    for item in source.blocks():
        if isinstance(item, AudioBlock):
            age_seconds = source.age_seconds() if isinstance(source, MicSource) else 0.0
            late = age_seconds > limits.late_seconds
            yield from session.push(replace(item, flags=item.flags | Flag.OVERLOAD) if late else item, age_seconds)
        else:
            yield from session.fault(item.code, item.message)
            if item.fatal and isinstance(source, MicSource):
                fatal = item
        if stop.asked:
            break
    if stop.asked:
        # Whoever stops the program does not want what is still pending; only the end of a file lets it pass.
        yield from session.fault("interrupted", "stopped by the user")
    yield from session.finish()
    if fatal is not None:
        yield fatal
