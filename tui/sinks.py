"""Where events go: JSON lines, a person's eyes, a command to execute."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Protocol

from rich.console import Console
from rich.text import Text

from voxgate.device.errors import InputError
from voxgate.models.events import Block, Decision, Event, Fault, Summary

EXECUTE_TIMEOUT_SECONDS = 60.0
MOST_OUTPUT_BYTES = 100_000


class Sink(Protocol):
    def take(self, event: Event) -> None: ...

    def close(self) -> None: ...


class JsonLines:
    """One event a line, written out at once, so that a reader or a crash finds whole lines. `-` is stdout."""

    def __init__(self, target: str) -> None:
        """Raises InputError when the file cannot be written."""
        self._owned = target != "-"
        try:
            # Open for the life of the sink; `close` closes it.
            self._file: IO[str] = open(target, "w", encoding="utf-8") if self._owned else sys.stdout  # noqa: SIM115
            self._ascii = "utf" not in (self._file.encoding or "").lower()
        except OSError as error:
            raise InputError(
                f"{target}: cannot write events there ({error.strerror}); choose another --jsonl"
            ) from error

    def take(self, event: Event) -> None:
        self._file.write(event.line(self._ascii) + "\n")
        self._file.flush()

    def close(self) -> None:
        if self._owned:
            self._file.close()


class Advice:
    """Says on stderr what the wearer should do before the next session."""

    def take(self, event: Event) -> None:
        if isinstance(event, Summary) and event.signature_moved:
            drift = f" ({event.signature_drift_db:.0f} dB)" if event.signature_drift_db is not None else ""
            print(
                f"voxgate: {event.source}: the microphones sit differently from the enrolment{drift}: enrol again",
                file=sys.stderr,
            )

    def close(self) -> None: ...


STYLES = {"tool": "bold green", "answer": "bold cyan", "mute": "yellow"}


class Transcript:
    """A line a decision for people, and with `blocks` a line a block between them."""

    def __init__(self, console: Console, blocks: bool = False) -> None:
        self._console = console
        self._blocks = blocks

    def take(self, event: Event) -> None:
        line = self._line(event)
        if line is not None:
            self._console.print(line, soft_wrap=True)

    def close(self) -> None:
        pass

    def _line(self, event: Event) -> Text | None:
        if isinstance(event, Decision):
            return decision_line(event)
        if isinstance(event, Fault):
            return Text(f"{event.t:7.2f} s  fault    {event.code}: {event.message}", "bold red")
        if isinstance(event, Block) and self._blocks:
            return block_line(event)
        if isinstance(event, Summary):
            return summary_line(event)
        return None


def percent(value: float | None) -> str:
    return "  ? " if value is None else f"{value * 100:3.0f}%"


def block_line(block: Block) -> Text:
    bar = "#" * round(block.speech * 6)
    line = Text(f"{block.t:7.2f} s  {bar:<6}   ", "dim")
    if block.speech > 0:
        line.append(f"wearer {percent(block.wearer)}  near {percent(block.near)}  {block.state:<9} {block.text}", "dim")
    return line


def call_of(decision: Decision) -> str:
    """The act as people read it: `send_money(recipient=Daniel, amount=40)`, or the answer's words."""
    if decision.action != "tool":
        return decision.output
    return f"{decision.tool}({', '.join(f'{name}={value}' for name, value in (decision.params or {}).items())})"


def decision_line(decision: Decision, short: bool = False) -> Text:
    """`short`: the call as people read it instead of the canonical output."""
    action = decision.action.upper()
    style = STYLES[decision.action] if decision.status != "cancelled" else "red"
    line = Text(f"{decision.t:7.2f} s  ")
    line.append(f"{action:<7}", style)
    if decision.action == "mute":
        line.append(f"  {', '.join(decision.reasons)}  {decision.t0:.1f}-{decision.t1:.1f} s")
        if decision.text:
            line.append(f"  “{decision.text}”", "dim")
    else:
        line.append(f"  {call_of(decision) if short else decision.output}", style)
        if decision.missing:
            line.append(f"  ({decision.tool}: still needs {', '.join(decision.missing)})")
        if decision.status != "final":
            line.append(f"  {decision.status}", "bold")
    line.append(f"   wearer {percent(decision.wearer)} near {percent(decision.near)}", "dim")
    return line


def summary_line(summary: Summary) -> Text:
    acts = len(summary.acts)
    text = f"{summary.seconds:7.2f} s  {acts} act{'s' * (acts != 1)} · mode {summary.mode}"
    if summary.lag["p50"] is not None:
        text += f" · decisions {summary.lag['p50']:.2f} s after the speech (longest {summary.lag['max']:.2f} s)"
    text += f" · {summary.rtf:.2f} of real time"
    if summary.gaps:
        text += f" · {summary.gaps} samples lost"
    return Text(text, "bold")


class Executor:
    """Runs a command for each final act: the decision as JSON on its stdin, the act's key in VOXGATE_KEY, and in
    VOXGATE_SESSION a name for the session, since keys count from the start in each.

    A line goes to the ledger before the command runs and another after it, so that a crash in between shows. Within a
    session a key is never run twice. Commands run one after the other in a thread of their own.
    """

    def __init__(self, command: str, ledger: Path) -> None:
        """Raises InputError when there is no such command or the ledger cannot be written."""
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise InputError(f"--execute {command!r}: cannot be read as a command ({error})") from error
        if not self._command or shutil.which(self._command[0]) is None:
            there = bool(self._command) and os.path.isfile(self._command[0])
            remedy = "not executable; chmod +x it" if there else "no such command"
            raise InputError(f"--execute {command!r}: {remedy}")
        try:
            ledger.parent.mkdir(parents=True, exist_ok=True)
            self._ledger = open(ledger, "a", encoding="utf-8")  # noqa: SIM115 - closed by `close`
        except OSError as error:
            raise InputError(
                f"{ledger}: cannot write the ledger of acts ({error.strerror}); set VOXGATE_HOME to a writable folder"
            ) from error
        self._run = uuid.uuid4().hex[:12]
        self._session = 0
        self._begun: set[str] = set()
        self._worker = ThreadPoolExecutor(max_workers=1)
        self.failed = 0

    def take(self, event: Event) -> None:
        """Queue the command for a final act; a slow command holds up the next one, never the listening."""
        if isinstance(event, Summary):
            self._begun.clear()  # keys count within a session
            self._session += 1
        if not isinstance(event, Decision) or event.action == "mute" or event.status != "final" or event.key is None:
            return
        if event.key not in self._begun:
            self._begun.add(event.key)
            self._worker.submit(self._execute, event, f"{self._run}-{self._session}")

    def _execute(self, event: Decision, session: str) -> None:
        try:
            self._note(event, session, "begun")
            # A file instead of a pipe: a child that the command leaves behind must not hold this up.
            with tempfile.TemporaryFile() as said:
                done = subprocess.run(
                    self._command,
                    input=event.line(ascii_only=True).encode(),
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "VOXGATE_KEY": str(event.key), "VOXGATE_SESSION": session},
                    timeout=EXECUTE_TIMEOUT_SECONDS,
                    check=False,
                )
                said.seek(0)
                sys.stderr.write(said.read(MOST_OUTPUT_BYTES).decode(errors="replace"))
            outcome, failed = f"exit {done.returncode}", done.returncode != 0
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            outcome, failed = " ".join(str(error).split()), True
        if failed:
            self.failed += 1
            print(f"voxgate: --execute {self._command[0]} failed for {event.key}: {outcome}", file=sys.stderr)
        self._note(event, session, outcome)

    def close(self) -> None:
        """Wait for what is queued. May be called twice."""
        self._worker.shutdown(wait=True)
        self._ledger.close()

    def _note(self, event: Decision, session: str, status: str) -> None:
        record = {"session": session, "source": event.source, "key": event.key, "status": status, "time": time.time()}
        self._ledger.write(json.dumps(record) + "\n")
        self._ledger.flush()
        os.fsync(self._ledger.fileno())
