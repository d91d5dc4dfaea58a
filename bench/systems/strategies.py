"""How an audio model is asked: the shared instruction, and three ways of asking that need no training.

- `plain`: instruction, tools and recording, one answer.
- `aura`: first an attribution of every stretch of speech (who, from where, to whom), then the decision, with that in view.
- `tws`: measurements that the model cannot make itself are taken here and handed over as text with the recording.
- `shanks`: the recording comes in chunks; after each the model writes notes, after the last it decides.

After published methods: attribution before acting (AURA), Thinking with Sound, and SHANKS, simultaneous hearing and thinking.
None of their prompts is used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.bench.items import Item
from voxgate.bench.systems.cache import fingerprint, hash_of_code
from voxgate.bench.systems.chat import TIMEOUT, UNREACHABLE, Endpoint, Message, Reply, audio_part, text_part
from voxgate.bench.systems.evidence import hear, nearness, stretches
from voxgate.bench.systems.gate import NOT_ENROLLED
from voxgate.bench.systems.outcome import Outcome, Span
from voxgate.bench.systems.prompts import ATTRIBUTE, DECIDE, LISTEN, MEASURED, SOURCE, instruction
from voxgate.bench.systems.raw import read_raw, reading_rules
from voxgate.bench.systems.sessions import NotEnrolled, Sessions
from voxgate.calib.clips import read_clip
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.settings import FRAME, RATE
from voxgate.models.tools.schema import ToolSet

CHUNK_SECONDS = 2.4
"""Of `shanks`: four blocks of the gate."""
PAUSE_FRAMES = 9
"""Of `tws`: 0.3 s without speech parts two stretches."""
MOST_UNANSWERED = 3
"""Items in a row without any answer, after which the run stops: it can go on where it stopped."""


class ChatSystem:
    """A model behind an endpoint, asked by one of the strategies. `raw.read_raw` reads what it writes, as any model's."""

    def __init__(self, endpoint: Endpoint, sessions: Sessions, strategy: str) -> None:
        self._endpoint, self._sessions, self._strategy = endpoint, sessions, strategy
        self._in_a_row = 0

    @property
    def facts(self) -> dict[str, Any]:
        """An edited prompt, another way of asking or of reading makes another record."""
        return {
            "endpoint": self._endpoint.base_url,
            "model": self._endpoint.model,
            "temperature": 0,
            "strategy": self._strategy,
            "mode": self._sessions.mode,
            "instruction": instruction(self._sessions.tools, self._sessions.mode),
            "asked_by": _asked_by(self._sessions.tools),
            "read_by": reading_rules(),
            **({"measured_by": fingerprint()} if self._strategy == "tws" else {}),
        }

    def decide(self, item: Item) -> Outcome:
        if item.audio is None:
            messages = [_system(self._sessions.tools, "text"), _user(text_part(item.text or ""))]
            return self._outcome(self._endpoint.complete(messages))
        mono = self._mono(self._sessions.sound(item), item)
        asked = _Asked(item, mono, [_system(self._sessions.tools, self._sessions.mode)], self._wearer(item))
        try:
            return self._outcome(STRATEGIES[self._strategy](self, asked))
        except NotEnrolled as error:  # of measurements alone
            return Outcome(error=NOT_ENROLLED, notes=(str(error),))

    def _outcome(self, reply: Reply) -> Outcome:
        """Raises InputError when nothing has been answered for some items in a row."""
        self._in_a_row = self._in_a_row + 1 if _gone(reply.error) else 0
        if self._in_a_row >= MOST_UNANSWERED:
            told = "not reached" if reply.error == UNREACHABLE else f"no answer ({reply.error})"
            raise InputError(
                f"{self._endpoint.base_url}: {told} for {MOST_UNANSWERED} items in a row; see to it, and run again to go on"
            )
        if reply.text is None:
            return Outcome(error=reply.error)
        outcome = read_raw(reply.text, self._sessions.tools)
        return replace(outcome, notes=(*outcome.notes, "cut")) if reply.cut else outcome

    def _mono(self, path: Path, item: Item) -> Floats:
        """The channel that the recogniser hears."""
        return np.ascontiguousarray(read_clip(path).samples[:, self._sessions.array(item).recogniser])

    def _wearer(self, item: Item) -> list[Message]:
        """In wearer mode the first clip of the wearer, which the instruction speaks of."""
        clips = self._sessions.clips(item)
        return [audio_part(self._mono(clips[0], item))] if clips else []

    def plain(self, asked: _Asked) -> Reply:
        return self._endpoint.complete([*asked.messages, asked.recording(text_part(DECIDE))])

    def aura(self, asked: _Asked) -> Reply:
        messages = [*asked.messages, asked.recording(text_part(ATTRIBUTE))]
        told = self._endpoint.complete(messages)
        if told.text is None:
            return told
        return self._endpoint.complete([*messages, _said(told.text), _user(text_part(DECIDE))])

    def tws(self, asked: _Asked) -> Reply:
        measured = measurements(self._sessions, asked.item)
        return self._endpoint.complete([*asked.messages, asked.recording(text_part(measured), text_part(DECIDE))])

    def shanks(self, asked: _Asked) -> Reply:
        chunks = in_chunks(asked.mono)
        messages, first = asked.messages, asked.wearer
        for number, chunk in enumerate(chunks, 1):
            listen = text_part(LISTEN.format(number=number, count=len(chunks)))
            messages = [*messages, _user(*first, audio_part(chunk), listen)]
            notes = self._endpoint.complete(messages)
            if notes.text is None:
                return notes
            messages, first = [*messages, _said(notes.text)], []
        return self._endpoint.complete([*messages, _user(text_part(DECIDE))])


@dataclass(frozen=True, slots=True)
class _Asked:
    """An item as it is put to a model: its sound (n,), the messages before it, and the wearer's voice where there is one."""

    item: Item
    mono: Floats
    messages: list[Message]
    wearer: list[Message]

    def recording(self, *parts: Message) -> Message:
        return _user(*self.wearer, audio_part(self.mono), *parts)


STRATEGIES: dict[str, Callable[[ChatSystem, _Asked], Reply]] = {
    "plain": ChatSystem.plain,
    "aura": ChatSystem.aura,
    "tws": ChatSystem.tws,
    "shanks": ChatSystem.shanks,
}


def _gone(error: str | None) -> bool:
    """Whether a server that is down, or too slow for any item, would leave such an error."""
    return error in (TIMEOUT, UNREACHABLE) or (error or "").startswith("http_5")


def in_chunks(mono: Floats) -> list[Floats]:
    """Parts of `CHUNK_SECONDS`; a rest shorter than half of one belongs to the part before."""
    size = round(CHUNK_SECONDS * RATE)
    starts = list(range(0, max(len(mono), 1), size))
    if len(starts) > 1 and len(mono) - starts[-1] < size / 2:
        starts.pop()
    return [mono[start:end] for start, end in zip(starts, [*starts[1:], len(mono)], strict=True)]


def measurements(sessions: Sessions, item: Item) -> str:
    """What instruments say of each stretch of speech, one a line. Raises NotEnrolled."""
    spans = spoken_stretches(hear(sessions, item).speech)
    shown, near = stretches(sessions, item, spans), nearness(sessions, item, spans)
    profile = sessions.profile(item)
    own = profile.centroid if profile is not None else next((one.voice for one in shown if one.voice is not None), None)
    lines = [MEASURED.format(voice="the wearer's" if profile is not None else "that of the first stretch long enough")]
    for one, p in zip(shown, near, strict=True):
        alike = None if own is None or one.voice is None else float(own @ one.voice)
        told = {"level": one.level_dbfs, "voice": alike, "near": p, "spread over the microphones": one.spread_db}
        units = {"level": " dBFS", "spread over the microphones": " dB"}
        values = ", ".join(
            f"{name} {'unknown' if value is None else f'{value:.2f}' + units.get(name, '')}"
            for name, value in told.items()
            if value is not None or name != "spread over the microphones"
        )
        lines.append(f"{one.t0:.2f} to {one.t1:.2f}: {values}")
    return "\n".join(lines)


def spoken_stretches(speech: NDArray[np.bool_]) -> list[Span]:
    """Frames with speech (n,) -> stretches between pauses, seconds."""
    spoken = np.flatnonzero(speech)
    if not len(spoken):
        return []
    breaks = np.flatnonzero(np.diff(spoken) > PAUSE_FRAMES)
    firsts, lasts = spoken[np.r_[0, breaks + 1]], spoken[np.r_[breaks, len(spoken) - 1]]
    step = FRAME / RATE
    return [
        (round(int(first) * step, 3), round((int(last) + 1) * step, 3))
        for first, last in zip(firsts, lasts, strict=True)
    ]


def _asked_by(tools: ToolSet) -> str:
    """Hash of everything that is said to a model and of the code that says it."""
    prompts = [instruction(tools, source) for source in sorted(SOURCE)], DECIDE, ATTRIBUTE, LISTEN, MEASURED
    code = hash_of_code(("bench/systems/strategies.py", "bench/systems/chat.py"))
    return hashlib.sha256(json.dumps([prompts, CHUNK_SECONDS, PAUSE_FRAMES, code]).encode()).hexdigest()


def _system(tools: ToolSet, source: str) -> Message:
    return {"role": "system", "content": instruction(tools, source)}


def _user(*parts: Message) -> Message:
    return {"role": "user", "content": list(parts)}


def _said(text: str) -> Message:
    return {"role": "assistant", "content": text}
