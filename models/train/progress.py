"""How long work says how far it is: one call a step, which whoever started the work shows as a bar, as lines, or not at all."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

Tell = Callable[[str, int, int, str], None]
"""What is done, how many steps of it are done, of how many, and what else there is to say of them."""


def silent(what: str, done: int, total: int, detail: str = "") -> None:
    """Says nothing."""


class Lines:
    """A line on standard error at a task's beginning and end, and at most one every `seconds` in between."""

    def __init__(self, seconds: float = 30.0) -> None:
        self._seconds = seconds
        self._what = ""
        self._first = self._last = 0.0
        self._done = 0

    def __call__(self, what: str, done: int, total: int, detail: str = "") -> None:
        now = time.monotonic()
        begins = what != self._what
        if begins:
            self._what, self._first, self._done = what, now, done
        elif now - self._last < self._seconds and done < total:
            return
        self._last = now
        words = [f"{what} {done} of {total}"] + [detail] * bool(detail)
        if self._done < done < total:
            words.append(f"{(now - self._first) / (done - self._done) * (total - done) / 60:.1f} min left")
        print("; ".join(words), file=sys.stderr, flush=True)
