"""The report of each 0.6 s: how much of it was speech, and what is known of that speech so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from voxgate.models.events import Block
from voxgate.models.settings import BLOCK_SECONDS, RATE

BLOCK_SAMPLES = round(BLOCK_SECONDS * RATE)


@dataclass(slots=True)
class Status:
    """What the next block event says about the speech in it.

    `state`: `wait` (nothing to go on yet), `uncertain` (authorised words, no complete call), `ready` (a complete call
    from authorised words), `hold` (speech that may not act: another source, or words that do not ask).
    """

    wearer: float | None = None
    near: float | None = None
    addressed: float | None = None
    state: str = "wait"
    text: str = ""


@dataclass(slots=True)
class BlockReporter:
    """Counts speech by sample and makes a block event at each boundary. Stream state."""

    source: str
    status: Status = field(default_factory=Status)
    start: int = 0
    _speech: int = 0
    _decided: bool = False

    def decided(self, status: Status) -> None:
        """An utterance ended in this block: the block shows what was decided, even where it holds no speech itself."""
        self.status, self._decided = status, True

    def count(self, first: int, past: int, speech: bool, speaking: bool) -> list[Block]:
        """Share a frame [first, past) out to the blocks that it lies in; returns the block that it completes.

        `speaking`: an utterance is under way, so that a pause inside it keeps its status.
        """
        blocks = []
        while past >= (boundary := self.start + BLOCK_SAMPLES):
            self._speech += max(0, boundary - max(first, self.start)) * speech
            blocks.append(self.emit(boundary, past / RATE, speaking))
        self._speech += max(0, past - max(first, self.start)) * speech
        return blocks

    def emit(self, past: int, t: float, speaking: bool) -> Block:
        """The block that ends at sample `past`, known at `t` seconds."""
        status = self.status if speaking or self._speech > 0 or self._decided else Status()
        block = Block(
            source=self.source,
            t=t,
            t0=self.start / RATE,
            t1=past / RATE,
            speech=self._speech / (past - self.start),
            wearer=status.wearer,
            near=status.near,
            addressed=status.addressed,
            state=status.state,
            text=status.text,
        )
        self.start, self._speech, self._decided = past, 0, False
        if not speaking:
            self.status = Status()
        return block


def agreed_words(before: list[str], now: list[str]) -> list[str]:
    """The words of the present decode up to the first that differs from the one before, case and punctuation aside: what
    two decodes agree on is shown, and not taken back."""
    for index, (one, other) in enumerate(zip(before, now, strict=False)):
        if one.strip(".,?!").lower() != other.strip(".,?!").lower():
            return now[:index]
    return now[: min(len(before), len(now))]
