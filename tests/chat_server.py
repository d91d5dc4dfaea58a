"""A server on the loopback that speaks the chat protocol: it answers as it is told, and keeps what it was asked."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]


def says(text: str | None, finish: str = "stop", **message: Any) -> Answer:
    """A completion with this text."""
    return sends(_completion(text, finish, **message))


def _completion(text: str | None, finish: str, **message: Any) -> bytes:
    body = {
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}]
    }
    return json.dumps(body).encode()


def calls(*functions: tuple[str, str], text: str | None = None) -> Answer:
    """A completion with native tool calls: name and arguments of each."""
    told = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(functions)
    ]
    return says(text, "tool_calls", tool_calls=told)


def sends(body: bytes, status: int = 200, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def hangs(seconds: float) -> Answer:
    """Nothing for so long, then a completion that comes too late."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(seconds)
        says("[Mute]")(handler)

    return answer


def drips(every_seconds: float, count: int) -> Answer:
    """A byte now and then, and never an end."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(count):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(every_seconds)

    return answer


def in_pieces(text: str) -> Answer:
    """A completion without a length, in chunks of a few bytes."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        body = _completion(text, "stop")
        for part in (body[at : at + 7] for at in range(0, len(body), 7)):
            handler.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        handler.wfile.write(b"0\r\n\r\n")
        handler.close_connection = True

    return answer


def breaks_off(handler: BaseHTTPRequestHandler) -> None:
    """Half of a completion whose length said more, then the connection is closed."""
    body = _completion("[Mute]", "stop")
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2])
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)


def hangs_up(handler: BaseHTTPRequestHandler) -> None:
    """The connection is closed without an answer."""
    handler.connection.shutdown(socket.SHUT_RDWR)


@dataclass
class ChatServer:
    """`answers` are given in turn, the last one for ever; `asked` are the bodies, `headers` and `paths` what came with them."""

    url: str
    answers: list[Answer] = field(default_factory=lambda: [says("[Mute]")])
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def parts(self, kind: str, request: int = -1) -> list[dict[str, Any]]:
        """Parts of one kind in the messages of a request, in order."""
        contents = [message["content"] for message in self.asked[request]["messages"]]
        return [part for content in contents if isinstance(content, list) for part in content if part["type"] == kind]


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            served.asked.append(json.loads(self.rfile.read(size)))
            served.headers.append(dict(self.headers))
            served.paths.append(self.path)
            answer = served.answers.pop(0) if len(served.answers) > 1 else served.answers[0]
            try:
                answer(self)
            except OSError:  # who asked has gone
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = ChatServer(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
