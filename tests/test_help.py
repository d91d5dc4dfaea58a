"""Help: every verb, argument and option is described, every example is one that the parser takes, and 80 columns are enough."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer.main

from tests.conftest import Outcome
from voxgate.tui.cli import app

ROOT = typer.main.get_command(app)


def _verbs(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _verbs(inner, (*path, name))


VERBS = dict(_verbs(ROOT))


@pytest.mark.parametrize("path", VERBS, ids=" ".join)
def test_help_says_what_everything_is(
    voxgate: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    command = VERBS[path]
    assert command.help and all(parameter.help for parameter in command.params)
    monkeypatch.setenv("COLUMNS", "80")
    shown = voxgate(*path, "--help")
    assert shown.status == 0 and shown.err == ""
    assert max(map(len, shown.out.splitlines())) <= 80 and "…" not in shown.out
    for parameter in command.params:
        assert (parameter.metavar or max(parameter.opts, key=len)) in shown.out


@pytest.mark.parametrize("path", [path for path in VERBS if path], ids=" ".join)
def test_examples_are_of_their_verb_and_parse(path: tuple[str, ...]) -> None:
    start, _, example = str(VERBS[path].epilog).partition(": voxgate ")
    words = tuple(shlex.split(example))
    assert start == "Example" and words[: len(path)] == path
    verb = max((known for known in VERBS if words[: len(known)] == known), key=len)
    assert not getattr(VERBS[verb], "commands", None)
    VERBS[verb].make_context(verb[-1], list(words[len(verb) :])).close()
