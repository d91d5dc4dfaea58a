"""Acts on their way: what waits for its commit window, what was done, and how long decisions took."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from voxgate.models.events import Decision
from voxgate.models.tools.schema import ToolSet

TOLD = ("utterance", "action", "tool", "output", "key")
"""What the summary tells of an act."""


@dataclass(slots=True)
class Acts:
    """Stream state of the acts of one session. `now` is seconds on the sample clock."""

    tools: ToolSet
    done: list[dict[str, Any]] = field(default_factory=list)
    _pending: list[Decision] = field(default_factory=list)
    _lags: deque[float] = field(default_factory=lambda: deque(maxlen=10_000))

    def take(self, decision: Decision) -> None:
        """Note a new decision: an act that is final, or one that waits."""
        if decision.t_speech_end is not None:
            self._lags.append(decision.t - decision.t_speech_end)
        if decision.status == "pending":
            self._pending.append(decision)
        elif decision.action != "mute":
            self._tell(decision)

    def due(self, now: float) -> list[Decision]:
        """The acts whose commit window has passed, now final; those that want a confirmation are cancelled."""
        passed = [decision for decision in self._pending if decision.t_commit is not None and now >= decision.t_commit]
        return [self._settle(decision, now) for decision in passed]

    def flush(self, now: float) -> list[Decision]:
        """The source is over: every commit window counts as passed."""
        return [self._settle(decision, now) for decision in list(self._pending)]

    def cancel(self, reason: str, now: float) -> list[Decision]:
        """Nothing that waits may act any more."""
        cancelled = [_cancelled(decision, reason, now) for decision in self._pending]
        self._pending.clear()
        return cancelled

    @property
    def final(self) -> str | None:
        """The canonical output of the only act, a mute for none, None for several."""
        return "[Mute]" if not self.done else self.done[0]["output"] if len(self.done) == 1 else None

    @property
    def lag(self) -> dict[str, float | None]:
        """Seconds from the end of speech to its decision: median and longest of the last ten thousand."""
        lags = np.array(self._lags)
        return {"p50": float(np.median(lags)), "max": float(lags.max())} if len(lags) else {"p50": None, "max": None}

    def _settle(self, decision: Decision, now: float) -> Decision:
        self._pending.remove(decision)
        tool = self.tools.get(decision.tool or "")
        if tool is None or tool.confirm:  # without a spoken confirmation such a call never becomes final
            return _cancelled(decision, "low_confidence", now)
        final = replace(decision, status="final", t=now)
        self._tell(final)
        return final

    def _tell(self, act: Decision) -> None:
        self.done.append({name: getattr(act, name) for name in TOLD})


def _cancelled(decision: Decision, reason: str, now: float) -> Decision:
    return replace(decision, status="cancelled", t=now, reasons=[reason])
