"""What a system makes of an item: its acts, with the times of the words that they rest on where those are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from voxgate.bench.items import Item
from voxgate.models.tools.grammar import render

Span = tuple[float, float]


def clean(text: str) -> str:
    """What a model wrote, as text that UTF-8 has: half a surrogate pair, which JSON can bring, becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True, slots=True)
class Act:
    """One final act. `spans`: times of its words in the item, seconds; none where a system does not know them."""

    action: str
    """`tool` or `answer`."""
    output: str
    """Canonical."""
    tool: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()

    @classmethod
    def call(cls, tool: str, params: Mapping[str, Any], spans: Sequence[Span] = ()) -> Act:
        return cls("tool", render("tool", tool, params), tool, dict(params), tuple(spans))

    @classmethod
    def answer(cls, text: str, spans: Sequence[Span] = ()) -> Act:
        return cls("answer", render("answer", text=text), spans=tuple(spans))


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that a system says of one item.

    `error`: why it said nothing usable (`timeout`, `malformed_call`, ...); nothing is executed then, so such an item is scored
    as a mute and counted as an error beside it. `raw`: what a model wrote. `notes`: what had to be done to read that.
    `scores`: probabilities of the stretch that covers the trigger (`wearer`, `near`, `addressed`), `reasons` its mute's,
    `heard` its words as recognised; empty where they were not asked for.
    """

    acts: tuple[Act, ...] = ()
    error: str | None = None
    raw: str | None = None
    notes: tuple[str, ...] = ()
    scores: Mapping[str, float | None] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    heard: str | None = None


class System(Protocol):
    """Decides about items. `facts`: what its record has to say of it (models, thresholds, strategy), as JSON."""

    @property
    def facts(self) -> dict[str, Any]: ...

    def decide(self, item: Item) -> Outcome:
        """Raises InputError where the set or the system is broken; trouble with one item is an `error`."""
        ...
