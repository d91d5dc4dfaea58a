"""The main job on recordings: sources into sessions, events into sinks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from voxgate.calib.home import ledger_file
from voxgate.calib.store import load_wearer
from voxgate.device.arrays import ArrayProfile, array_for, load_array
from voxgate.device.blocks import AudioBlock, Source
from voxgate.device.errors import InputError
from voxgate.device.files import FileSource
from voxgate.models.events import Event
from voxgate.models.evidence import Recogniser
from voxgate.models.extractors import Extractors, load_extractors
from voxgate.models.profile import WearerProfile
from voxgate.models.session import Session
from voxgate.models.tools.schema import ToolSet, load_tools
from voxgate.models.words.bias import enum_words
from voxgate.models.words.moonshine import MoonshineRecogniser, available
from voxgate.models.words.pattern import closed_patterns
from voxgate.tui.config import resolve
from voxgate.tui.sinks import Advice, Executor, JsonLines, Sink, Transcript
from voxgate.tui.speaker_model import (
    speaker_folder,
    warn_if_uncalibrated,
    warn_of_enrolment,
    warn_of_threshold,
    warn_without_change_model,
)


@dataclass(frozen=True, slots=True)
class Job:
    """What the command line asks for, once it has become things."""

    profile: WearerProfile | None
    array: str | None
    tools: ToolSet
    forced: bool
    settings: list[str]

    @property
    def title(self) -> str:
        """Who may act."""
        return self.profile.name if self.profile is not None else "whoever opens the session"

    def array_of(self, source: Source) -> ArrayProfile:
        """The array of a source: as told, else the wearer's own when the channels fit, else by channel count.

        Raises InputError when the source has another channel count than the array that was asked for.
        """
        if self.array is not None:
            array = load_array(self.array)
        elif self.profile is not None and self.profile.channels == source.channels:
            array = self.profile.own_array()
        else:
            array = array_for(source.channels)
        if array.channels != source.channels:
            raise InputError(
                f"{source.name}: {source.channels} channels, but {array.name} has {array.channels}: give the --array that fits"
            )
        return array

    def session(self, source: Source, extractors: Extractors) -> Session:
        return Session(
            extractors,
            resolve(self.settings).settings,
            self.array_of(source),
            self.tools,
            source=source.name,
            rate=source.rate,
            profile=self.profile,
            forced=self.forced,
            reference=_recorded(source),
            clock=time.perf_counter,
        )


def _recorded(source: Source) -> datetime:
    """What "tomorrow" is counted from: when a file was last written, so that two runs agree; now for a microphone."""
    if isinstance(source, FileSource):
        return datetime.fromtimestamp(int(Path(source.name).stat().st_mtime)).astimezone()
    return datetime.now().astimezone().replace(microsecond=0)


def make_job(wearer: str | None, array: str | None, tools: Path | None, forced: bool, settings: list[str]) -> Job:
    """Raises InputError for a wearer, array, tools file or setting that is not there or not right."""
    resolve(settings)
    if array is not None:
        load_array(array)
    return Job(load_wearer(wearer) if wearer is not None else None, array, load_tools(tools), forced, settings)


def make_recogniser(tools: ToolSet) -> Recogniser | None:
    """The recogniser in this process, leaning towards the words that the tools' closed parameters take and knowing their
    commands of fixed form; None (which the session says) where it has no wheel."""
    return MoonshineRecogniser(enum_words(tools), closed_patterns(tools)) if available() else None


def drive(session: Session, source: Source) -> Iterator[Event]:
    """Everything that a source gives, through the session."""
    for item in source.blocks():
        yield from session.push(item) if isinstance(item, AudioBlock) else session.fault(item.code, item.message)
    yield from session.finish()


def make_sinks(jsonl: str | None, execute: str | None, stack: ExitStack, blocks: bool = False) -> list[Sink]:
    sinks: list[Sink] = [Advice()]
    if jsonl is not None:
        sinks.append(JsonLines(jsonl))
    if jsonl != "-":
        sinks.append(Transcript(Console(), blocks))
    if execute is not None:
        sinks.append(Executor(execute, ledger_file()))
    for sink in sinks:
        stack.callback(sink.close)
    return sinks


def refuse_overwriting(jsonl: str | None, files: Sequence[Path]) -> None:
    """Raise InputError when events would be written over a recording."""
    if jsonl not in (None, "-") and any(os.path.realpath(str(jsonl)) == os.path.realpath(path) for path in files):
        raise InputError(f"{jsonl}: --jsonl would overwrite the recording; choose another file")


def execution_status(sinks: list[Sink]) -> int:
    """1 when a command for an act failed; to be asked once the sinks are closed."""
    return 1 if any(isinstance(sink, Executor) and sink.failed for sink in sinks) else 0


def run(
    files: Sequence[Path],
    wearer: str | None = None,
    array: str | None = None,
    tools: Path | None = None,
    forced: bool = False,
    execute: str | None = None,
    jsonl: str | None = None,
    settings: list[str] | None = None,
    blocks: bool = False,
) -> int:
    """One session a file. Every input is opened before the first is worked on, so that a bad one is said at once."""
    job = make_job(wearer, array, tools, forced, settings or [])
    refuse_overwriting(jsonl, files)
    if forced and execute is not None:
        print("voxgate: --force-authorised: whoever speaks is executed, from wherever", file=sys.stderr)
    with ExitStack() as stack:
        sources = [stack.enter_context(closing(FileSource(path))) for path in files]
        arrays = {array.name: array for array in map(job.array_of, sources)}
        sinks = make_sinks(jsonl, execute, stack, blocks)
        folder = speaker_folder(job.settings)
        extractors = load_extractors(make_recogniser(job.tools), folder)
        warn_if_uncalibrated(extractors.speaker, folder)
        warn_without_change_model(extractors, folder)
        if job.profile is not None:
            warn_of_threshold(job.profile, extractors.speaker)
        for array_used in arrays.values() if not forced else ():
            warn_of_enrolment(job.profile, array_used)
        for source in sources:
            if len(sources) > 1 and jsonl != "-":
                Console().print(Text(source.name, "bold"))
            for event in drive(job.session(source, extractors), source):
                for sink in sinks:
                    sink.take(event)
    return execution_status(sinks)
