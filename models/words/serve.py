"""The far side of `RecogniserProcess`: reads requests from standard input, answers on standard output.

A request is a head (operation, sample count, text length in bytes, as HEAD), float32 samples and UTF-8 text; an answer is
a four-byte length and JSON. Nothing is ever unpickled. The one argument is a JSON object with the vocabulary and the closed
patterns. The process ends as soon as its standard input does, which is when the one that started it closes it or dies,
however busy it is then.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import struct
import sys
import threading
from dataclasses import asdict
from typing import Any, BinaryIO

import numpy as np

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats, Recogniser
from voxgate.models.settings import RATE

HEAD = struct.Struct("<BII")
LENGTH = struct.Struct("<I")
DECODE, ALIGN = 1, 2

Request = tuple[int, Floats, str]


def request_bytes(operation: int, samples: Floats, text: str = "") -> bytes:
    """A request as it travels."""
    sound = np.ascontiguousarray(samples, "<f4").tobytes()
    written = text.encode()
    return HEAD.pack(operation, len(sound) // 4, len(written)) + sound + written


def read_request(stream: BinaryIO) -> Request | None:
    """The next request, None at the end of the stream."""
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    operation, count, size = HEAD.unpack(head)
    sound, written = stream.read(count * 4), stream.read(size)
    if len(sound) < count * 4 or len(written) < size:
        return None
    return operation, np.frombuffer(sound, "<f4").astype(np.float32), written.decode()


def answer_to(request: Request, recogniser: Recogniser) -> dict[str, Any]:
    """What the recogniser makes of a request; any failure of its becomes an `error` that the asker reports as words lost."""
    operation, samples, text = request
    try:
        if operation == DECODE:
            return asdict(recogniser.decode(samples))
        if operation == ALIGN:
            return {"words": [[word.text, word.t0, word.t1] for word in recogniser.align(samples, text)]}
        return {"error": f"unknown operation {operation}"}
    except Exception as error:  # the asker must hear of every failure: silence would look like a hang
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that started this, who then closes the pipe
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not fall between the answers

    def send(answer: dict[str, Any]) -> None:
        body = json.dumps(answer, allow_nan=False).encode()
        answers.write(LENGTH.pack(len(body)) + body)
        answers.flush()

    requests: queue.Queue[Request] = queue.Queue()

    def listen() -> None:
        while (request := read_request(sys.stdin.buffer)) is not None:
            requests.put(request)
        os._exit(0)  # not sys.exit: the main thread may be deep in a graph

    threading.Thread(target=listen, daemon=True).start()
    try:
        from voxgate.models.words.moonshine import MoonshineRecogniser
        from voxgate.models.words.pattern import ClosedPattern

        given = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
        patterns = [ClosedPattern.from_json(pattern) for pattern in given.get("patterns", ())]
        recogniser: Recogniser = MoonshineRecogniser(given.get("vocabulary", ()), patterns)
        warm = np.random.default_rng(0).standard_normal(RATE).astype(np.float32) * np.float32(0.1)
        recogniser.decode(warm)  # the first run of a graph plans its memory
        recogniser.align(warm, "ready")
    except InputError as error:
        send({"error": str(error)})
        return
    send({"ready": True})
    while True:
        send(answer_to(requests.get(), recogniser))


if __name__ == "__main__":
    main()
