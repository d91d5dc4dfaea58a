"""What all tests share: a home of their own, the program run in this process, and the mark for torch."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("torch") is not None:
        return
    without = pytest.mark.skip(reason="needs torch: make test-train")
    for item in items:
        if item.get_closest_marker("torch"):
            item.add_marker(without)


@dataclass(frozen=True)
class Outcome:
    """What a run of the program left: exit status, standard output and standard error."""

    status: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind, in order."""
        return [event for event in self.events if event["kind"] == kind]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, in force while the test runs."""
    folder = tmp_path / "home"
    monkeypatch.setenv("VOXGATE_HOME", str(folder))
    return folder


@pytest.fixture
def voxgate(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Run the program in this process: `voxgate("run", path, env={...})`."""
    from voxgate.tui import cli

    def run(*arguments: object, env: dict[str, str] | None = None) -> Outcome:
        capsys.readouterr()
        with monkeypatch.context() as patch:
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            status = cli._status([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Outcome(status, out, err)

    return run
