"""One chat completion from an OpenAI-compatible endpoint: sent, waited for, tried again, and read without trust.

Protocol: `POST BASE/chat/completions` with `model`, `temperature` 0 and `messages`, audio as `input_audio` parts (base64 wav).
A time-out, a broken connection and the statuses of an overloaded server are tried again, each time after twice as long or as
long as `Retry-After` says. What stays wrong is told by its kind:

- `timeout`, `unreachable`, `http_503` and the like: no answer after all attempts;
- `http_400` and other statuses of this one request: not tried again;
- `bad_reply`: an answer that is no chat completion (no JSON, too long, no choices, no text);
- `refusal`: the model declines, by the field `refusal` or by the finish reason `content_filter`.

A status that says that no request can succeed (401, 403, 404 and redirects) is an InputError: the run stops.
"""

from __future__ import annotations

import base64
import io
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from voxgate.bench.systems.outcome import clean
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.settings import RATE
from voxgate.models.tools.grammar import CLOSE, OPEN

KEY_VARIABLE = "OPENAI_API_KEY"
TRY_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
HOPELESS = frozenset({301, 302, 303, 307, 308, 401, 403, 404, 405})
LONGEST_REPLY_BYTES = 4_000_000
LONGEST_WAIT_SECONDS = 60.0
TIMEOUT, UNREACHABLE, BAD_REPLY = "timeout", "unreachable", "bad_reply"

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the text, or the kind of error. `cut`: the model was stopped at its longest output."""

    text: str | None = None
    error: str | None = None
    cut: bool = False


class Endpoint:
    """A chat endpoint. Use as a context manager. `attempts` in all; `sleep` waits between them."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        timeout_seconds: float = 120.0,
        attempts: int = 4,
        first_wait_seconds: float = 1.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Raises InputError for an address that is none. The key comes from the environment and goes nowhere else."""
        import httpx  # only who asks for an endpoint needs it

        remedy = f"not the address of an endpoint: give http(s)://HOST/PATH, and a key by {KEY_VARIABLE}"
        try:
            parts = urlsplit(base_url)
            httpx.URL(base_url)
            whole = parts.port is None or parts.port > 0
        except (ValueError, httpx.InvalidURL) as error:  # which may tell what is secret in it
            raise InputError(f"openai:{base_url.rpartition('@')[2].partition('?')[0]}: {remedy}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or not whole:
            raise InputError(f"{parts._replace(netloc=parts.hostname or '').geturl()}: {remedy}")
        if not parts.hostname.strip("."):
            raise InputError(f"{base_url}: {remedy}")
        self.base_url, self.model = base_url.rstrip("/"), model
        self._timeout_seconds, self._attempts = timeout_seconds, attempts
        self._first_wait_seconds, self._sleep = first_wait_seconds, sleep
        key = os.environ.get(KEY_VARIABLE)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            self._client = httpx.Client(headers=headers, timeout=timeout_seconds)
        except UnicodeEncodeError as error:
            raise InputError(f"{KEY_VARIABLE}: holds characters that no key has; set it again") from error
        except (
            ImportError,
            ValueError,
            httpx.InvalidURL,
        ) as error:  # a SOCKS proxy without its package, or none at all
            raise InputError(f"no connection by the proxy of the environment ({error}); unset ALL_PROXY") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def complete(self, messages: list[Message]) -> Reply:
        """One answer to a conversation. Raises InputError where no further request could succeed either."""
        wait, error = self._first_wait_seconds, ""
        for attempt in range(self._attempts):
            if attempt:
                self._sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)
            answer = self._post(messages)
            if answer.status == 200:
                return _read(answer.body)
            error = answer.error or f"http_{answer.status}"
            if answer.status in HOPELESS:
                raise InputError(
                    f"{self.base_url}: answers {answer.status} for model {self.model}: "
                    f"check address, model and {KEY_VARIABLE}"
                )
            if answer.status is not None and answer.status not in TRY_AGAIN:
                break
            wait = max(wait, answer.wait_seconds)
        return Reply(error=error)

    def _post(self, messages: list[Message]) -> _Answer:
        import httpx

        request = {"model": self.model, "temperature": 0, "messages": messages}
        deadline = time.monotonic() + self._timeout_seconds
        body = b""
        try:
            with self._client.stream("POST", f"{self.base_url}/chat/completions", json=request) as response:
                for part in response.iter_bytes():
                    body += part
                    if len(body) > LONGEST_REPLY_BYTES:
                        return _Answer(response.status_code)  # no body: no chat completion
                    if time.monotonic() > deadline:  # httpx only bounds the wait for the next byte
                        return _Answer(error=TIMEOUT)
                return _Answer(response.status_code, body, _seconds(response.headers.get("retry-after")))
        except httpx.TimeoutException:
            return _Answer(error=TIMEOUT)
        except (httpx.TransportError, httpx.DecodingError):
            return _Answer(error=UNREACHABLE)


@dataclass(frozen=True, slots=True)
class _Answer:
    """Status, body and the wait that a server asks for; or, without a status, the kind of error."""

    status: int | None = None
    body: bytes = b""
    wait_seconds: float = 0.0
    error: str | None = None


def unanswered(error: str | None) -> bool:
    """Whether an error is one of no answer, which another time may bring."""
    return error in {TIMEOUT, UNREACHABLE, *(f"http_{status}" for status in TRY_AGAIN)}


def _seconds(told: str | None) -> float:
    """`Retry-After` in seconds, bounded; a date counts as nothing."""
    try:
        wait = float(told or 0)
    except ValueError:
        return 0.0
    return min(wait, LONGEST_WAIT_SECONDS) if wait > 0 else 0.0


def _read(body: bytes) -> Reply:
    try:
        choice = json.loads(body)["choices"][0]
        message = choice["message"]
        finish, refusal, text = choice.get("finish_reason"), message.get("refusal"), message.get("content")
        calls = message.get("tool_calls") or []
        if finish == "content_filter" or (isinstance(refusal, str) and refusal):
            return Reply(error="refusal")
        if isinstance(text, list):  # parts, as some servers give them
            text = "".join(part["text"] for part in text if part["type"] == "text")
        written = "".join(_written(call) for call in calls)
        if not isinstance(text, str) and not (text is None and written):
            return Reply(error=BAD_REPLY)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Reply(error=BAD_REPLY)
    return Reply(clean((text or "") + written), cut=finish == "length")


def _written(call: dict[str, Any]) -> str:
    """A native tool call in the grammar that the text would have it in. Arguments that are no JSON stay what they are."""
    function = call["function"]
    arguments = function["arguments"]
    plain = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return f'{OPEN}{{"name": {json.dumps(function["name"])}, "params": {plain.strip() or "{}"}}}{CLOSE}'


def text_part(text: str) -> Message:
    return {"type": "text", "text": text}


def audio_part(samples: Floats) -> Message:
    """16 kHz mono (n,) as a 16 bit wav."""
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format="WAV", subtype="PCM_16")
    return {"type": "input_audio", "input_audio": {"data": base64.b64encode(file.getvalue()).decode(), "format": "wav"}}
