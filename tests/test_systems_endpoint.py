"""Models behind an endpoint, against a real server: what is sent, each strategy, and every way in which it goes wrong."""

from __future__ import annotations

import base64
import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.bench_set import make_set
from tests.chat_server import (
    Answer,
    ChatServer,
    breaks_off,
    calls,
    chat_server,
    drips,
    hangs,
    hangs_up,
    in_pieces,
    says,
    sends,
)
from voxgate.bench.items import Item
from voxgate.bench.systems.cache import EvidenceCache
from voxgate.bench.systems.chat import LONGEST_REPLY_BYTES, Endpoint, Reply
from voxgate.bench.systems.outcome import Outcome
from voxgate.bench.systems.sessions import Sessions
from voxgate.bench.systems.strategies import CHUNK_SECONDS, ChatSystem, in_chunks, measurements, spoken_stretches
from voxgate.device.errors import InputError

CALL = '<|TOOL|>{"name": "unlock_door", "params": {"door": "front door"}}</|TOOL|>'
NATIVE = ("unlock_door", '{"door": "front door"}')
ASKED = [{"role": "user", "content": "hello"}]
RATE = 16_000


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with chat_server() as served:
        yield served


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def endpoint(server: ChatServer, waits: list[float]) -> Iterator[Endpoint]:
    with Endpoint(server.url + "/", "ear-1", timeout_seconds=0.5, attempts=4, sleep=waits.append) as found:
        yield found


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Item]]:
    folder = tmp_path_factory.mktemp("sets") / "tiny"
    return folder, {item.id: item for item in make_set(folder)}


def system(endpoint: Endpoint, folder: Path, strategy: str = "plain", mode: str = "initiator") -> ChatSystem:
    return ChatSystem(endpoint, Sessions(folder, mode, EvidenceCache(folder.parent / "cache")), strategy)


def seconds_of(part: dict[str, Any]) -> float:
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(part["input_audio"]["data"])))
    assert part["input_audio"]["format"] == "wav" and rate == RATE and samples.ndim == 1
    return len(samples) / RATE


# -- one completion ----------------------------------------------------------------------------------------------------


def test_a_completion_is_asked_for_as_the_protocol_says(
    server: ChatServer, endpoint: Endpoint, waits: list[float]
) -> None:
    server.answers = [says("noon")]
    assert endpoint.complete(ASKED) == Reply("noon")
    assert server.paths == ["/v1/chat/completions"] and waits == []
    assert server.asked == [{"model": "ear-1", "temperature": 0, "messages": ASKED}]
    assert "Authorization" not in server.headers[0]


def test_the_key_comes_from_the_environment(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k3y")
    with Endpoint(server.url, "ear-1") as endpoint:
        endpoint.complete(ASKED)
    assert server.headers[0]["Authorization"] == "Bearer k3y"


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_an_overloaded_server_is_asked_again_after_longer_and_longer(
    server: ChatServer, endpoint: Endpoint, waits: list[float], status: int
) -> None:
    server.answers = [sends(b"busy", status), sends(b"busy", status), says("noon")]
    assert endpoint.complete(ASKED) == Reply("noon") and waits == [1.0, 2.0]
    server.answers = [sends(b"busy", status)]
    assert endpoint.complete(ASKED) == Reply(error=f"http_{status}") and waits == [1.0, 2.0, 1.0, 2.0, 4.0]
    assert len(server.asked) == 3 + 4


@pytest.mark.parametrize(("told", "waited"), [("7", 7.0), ("0.2", 1.0), ("9999", 60.0), ("soon", 1.0), ("-3", 1.0)])
def test_the_server_may_ask_for_a_longer_wait_within_bounds(
    server: ChatServer, endpoint: Endpoint, waits: list[float], told: str, waited: float
) -> None:
    server.answers = [sends(b"busy", 429, Retry_After=told), says("noon")]
    assert endpoint.complete(ASKED) == Reply("noon") and waits == [waited]


def test_a_time_out_is_tried_again_and_told(server: ChatServer, endpoint: Endpoint, waits: list[float]) -> None:
    server.answers = [hangs(1.0), says("noon")]
    assert endpoint.complete(ASKED) == Reply("noon") and waits == [1.0]
    server.answers = [hangs(1.0)]
    assert endpoint.complete(ASKED) == Reply(error="timeout")


def test_an_answer_that_never_ends_is_a_time_out(server: ChatServer, endpoint: Endpoint) -> None:
    server.answers = [drips(0.1, 12), says("noon")]
    assert endpoint.complete(ASKED) == Reply("noon")


def test_a_connection_that_breaks_is_tried_again_and_told(server: ChatServer, endpoint: Endpoint) -> None:
    server.answers = [hangs_up, says("noon")]
    assert endpoint.complete(ASKED) == Reply("noon")
    server.answers = [hangs_up]
    assert endpoint.complete(ASKED) == Reply(error="unreachable")


def test_an_answer_that_breaks_off_is_tried_again_and_told(server: ChatServer, endpoint: Endpoint) -> None:
    server.answers = [breaks_off, says("noon")]
    assert endpoint.complete(ASKED) == Reply("noon")
    server.answers = [breaks_off]
    assert endpoint.complete(ASKED) == Reply(error="unreachable")


def test_an_answer_in_pieces_of_unknown_length_is_read_to_its_end(server: ChatServer, endpoint: Endpoint) -> None:
    server.answers = [in_pieces("noon")]
    assert endpoint.complete(ASKED) == Reply("noon")


def test_a_port_where_nobody_listens_is_tried_and_told(server: ChatServer, waits: list[float]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
        with Endpoint(f"http://127.0.0.1:{taken.getsockname()[1]}/v1", "m", sleep=waits.append) as endpoint:
            assert endpoint.complete(ASKED) == Reply(error="unreachable") and waits == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_request_is_not_tried_again(
    server: ChatServer, endpoint: Endpoint, waits: list[float], status: int
) -> None:
    server.answers = [sends(b"{}", status)]
    assert endpoint.complete(ASKED) == Reply(error=f"http_{status}")
    assert len(server.asked) == 1 and waits == []


@pytest.mark.parametrize("status", [401, 403, 404, 307])
def test_a_status_that_no_request_can_change_ends_the_run(server: ChatServer, endpoint: Endpoint, status: int) -> None:
    server.answers = [sends(b"{}", status, Location="http://127.0.0.1:1/")]
    with pytest.raises(InputError, match=f"answers {status} for model ear-1"):
        endpoint.complete(ASKED)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b'{"choices": [{"message": {"content": "[Mu',
        b'data: {"choices": [{"delta": {"content": "[Mute]"}}]}\n\ndata: [DONE]\n\n',
        b'{"choices": [{"delta": {"content": "[Mute]"}}]}',
        b"[1]",
        b"\xff\xfe",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{}]}',
        b'{"choices": [{"message": {"content": 5}}]}',
        b'{"choices": [{"message": {"content": null}}]}',
        b'{"choices": [{"message": {"content": [{"type": "text"}]}}]}',
        b'{"choices": [{"message": {"content": null, "tool_calls": [{"function": {"name": "x"}}]}}]}',
        b'{"choices": [{"message": {"content": "x", "tool_calls": 5}}]}',
        b"[" * 100_000,
        b'{"choices": "' + b"x" * LONGEST_REPLY_BYTES + b'"}',
    ],
    ids=lambda body: body[:40].decode("latin-1"),
)
def test_what_is_no_completion_is_a_bad_reply(server: ChatServer, endpoint: Endpoint, body: bytes) -> None:
    server.answers = [sends(body)]
    assert endpoint.complete(ASKED) == Reply(error="bad_reply") and len(server.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [says(None, refusal="I cannot help."), says("I", refusal="no"), says("", "content_filter")],
)
def test_a_model_that_declines_has_refused(server: ChatServer, endpoint: Endpoint, answer: Answer) -> None:
    server.answers = [answer]
    assert endpoint.complete(ASKED) == Reply(error="refusal")


def test_text_in_parts_and_native_calls_become_text(server: ChatServer, endpoint: Endpoint) -> None:
    server.answers = [says([{"type": "text", "text": "no"}, {"type": "text", "text": "on"}]), calls(NATIVE)]  # type: ignore[arg-type]
    assert endpoint.complete(ASKED) == Reply("noon")
    assert endpoint.complete(ASKED) == Reply(CALL)
    server.answers = [calls(("f", ""), text="See: ")]
    assert endpoint.complete(ASKED).text == 'See: <|TOOL|>{"name": "f", "params": {}}</|TOOL|>'


@pytest.mark.parametrize(
    "url", ["ftp://host/v1", "localhost:8000", "http://", "http://user:secret@host/v1", "http://host/v1?key=secret"]
)
def test_an_address_that_is_none_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(InputError, match="not the address of an endpoint") as error:
        Endpoint(url, "m")
    assert "user" not in str(error.value) and "secret@" not in str(error.value)


# -- a system ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "outputs", "error", "note"),
    [
        (says(CALL), [CALL], None, None),
        (calls(NATIVE), [CALL], None, None),
        (says("[Mute]"), [], None, None),
        (says("It is noon."), ["It is noon."], None, None),
        (says(f"Certainly: {CALL}"), [CALL], None, "prose"),
        (calls(NATIVE, NATIVE), [], "malformed_call", "several"),
        (says(CALL + CALL), [], "malformed_call", "several"),
        (calls(NATIVE, text=CALL), [], "malformed_call", "several"),
        (calls(NATIVE, text="[Mute]"), [], "malformed_call", None),
        (calls(("unlock_door", "{door: front")), [], "malformed_call", "unreadable"),
        (calls(("unlock_door", "{}")), [], "malformed_call", "missing_parameter"),
        (calls(("open_door", "{}")), [], "malformed_call", "unknown_tool"),
        (says(CALL[:40], "length"), [], "malformed_call", "cut"),
        (says(""), [], "malformed_call", "empty"),
        (says(None, refusal="no"), [], "refusal", None),
        (sends(b"<html>"), [], "bad_reply", None),
        (sends(b"{}", 400), [], "http_400", None),
        (sends(b"{}", 503), [], "http_503", None),
    ],
)
def test_what_a_model_says_is_read_as_any_output(
    server: ChatServer,
    endpoint: Endpoint,
    tiny: tuple[Path, dict[str, Item]],
    answer: Answer,
    outputs: list[str],
    error: str | None,
    note: str | None,
) -> None:
    server.answers = [answer]
    found: Outcome = system(endpoint, tiny[0]).decide(tiny[1]["request"])
    assert [act.output for act in found.acts] == outputs and found.error == error
    assert note is None or note in found.notes


def test_a_time_out_executes_nothing_and_is_no_mute_of_the_model(
    server: ChatServer, tiny: tuple[Path, dict[str, Item]]
) -> None:
    server.answers = [hangs(0.6)]
    with Endpoint(server.url, "ear-1", timeout_seconds=0.2, attempts=1) as endpoint:
        assert system(endpoint, tiny[0]).decide(tiny[1]["request"]) == Outcome(error="timeout")


def test_plain_hands_over_the_instruction_the_tools_and_the_recording(
    server: ChatServer, endpoint: Endpoint, tiny: tuple[Path, dict[str, Item]]
) -> None:
    folder, items = tiny
    asked = system(endpoint, folder)
    asked.decide(items["single"])
    (first, second) = server.asked[0]["messages"]
    assert first["role"] == "system" and second["role"] == "user" and server.asked[0]["temperature"] == 0
    assert "whoever speaks first" in first["content"] and first["content"] == asked.facts["instruction"]
    for name in (
        "send_money",
        "unlock_door",
        "share_location",
        "[Mute]",
        "<|TOOL|>",
        '"required": ["recipient", "amount"]',
    ):
        assert name in first["content"]
    (audio,) = server.parts("input_audio")
    assert seconds_of(audio) == pytest.approx(soundfile.info(folder / "audio/single.wav").duration)


def test_in_wearer_mode_the_wearers_voice_comes_first(
    server: ChatServer, endpoint: Endpoint, tiny: tuple[Path, dict[str, Item]]
) -> None:
    folder, items = tiny
    system(endpoint, folder, mode="wearer").decide(items["request"])
    voice, recording = server.parts("input_audio")
    assert seconds_of(voice) == pytest.approx(soundfile.info(folder / "audio/enrol-1.wav").duration)
    assert seconds_of(recording) == pytest.approx(soundfile.info(folder / "audio/request.wav").duration)
    assert "voice is in the first recording" in server.asked[0]["messages"][0]["content"]


def test_words_alone_go_without_sound_in_every_mode_and_strategy(
    server: ChatServer, endpoint: Endpoint, tiny: tuple[Path, dict[str, Item]]
) -> None:
    server.answers = [says(CALL)]
    found = system(endpoint, tiny[0], "shanks", "wearer").decide(tiny[1]["text-only"])
    assert [act.output for act in found.acts] == [CALL] and len(server.asked) == 1
    assert server.parts("input_audio") == [] and server.parts("text")[0]["text"] == "Please unlock the front door."
    assert "given as text" in server.asked[0]["messages"][0]["content"]


def test_aura_attributes_first_and_decides_with_that_in_view(
    server: ChatServer, endpoint: Endpoint, tiny: tuple[Path, dict[str, Item]]
) -> None:
    server.answers = [says("1.0 to 2.0 | hi | another | far"), says(CALL)]
    found = system(endpoint, tiny[0], "aura").decide(tiny[1]["request"])
    assert [act.output for act in found.acts] == [CALL] and len(server.asked) == 2
    assert "Do not decide yet" in server.parts("text", 0)[0]["text"]
    assert [message["role"] for message in server.asked[1]["messages"]] == ["system", "user", "assistant", "user"]
    assert server.asked[1]["messages"][2]["content"] == "1.0 to 2.0 | hi | another | far"
    assert "Now decide" in server.parts("text", 1)[-1]["text"] and len(server.parts("input_audio", 1)) == 1


def test_a_strategy_ends_with_the_first_request_that_fails(
    server: ChatServer, endpoint: Endpoint, tiny: tuple[Path, dict[str, Item]]
) -> None:
    for strategy in ("aura", "shanks"):
        server.asked.clear()
        server.answers = [sends(b"{}", 400)]
        assert system(endpoint, tiny[0], strategy).decide(tiny[1]["single"]).error == "http_400"
        assert len(server.asked) == 1


def test_shanks_listens_in_chunks_and_keeps_its_notes(
    server: ChatServer, endpoint: Endpoint, tiny: tuple[Path, dict[str, Item]]
) -> None:
    folder, items = tiny
    length = soundfile.info(folder / "audio/single.wav").duration
    count = len(in_chunks(np.zeros(round(length * RATE), np.float32)))
    server.answers = [*(says(f"note {number}") for number in range(count)), says("[Mute]")]
    found = system(endpoint, folder, "shanks", "wearer").decide(items["single"])
    assert found.error is None and found.raw == "[Mute]" and count > 2 and len(server.asked) == count + 1
    voice, *chunks = server.parts("input_audio")
    assert seconds_of(voice) == pytest.approx(soundfile.info(folder / "audio/enrol-1.wav").duration)
    assert sum(map(seconds_of, chunks)) == pytest.approx(length) and seconds_of(chunks[0]) == CHUNK_SECONDS
    notes = [message["content"] for message in server.asked[-1]["messages"] if message["role"] == "assistant"]
    assert notes == [f"note {number}" for number in range(count)]
    assert len(server.parts("input_audio", 0)) == 2 and f"part 1 of {count}" in server.parts("text", 0)[0]["text"]


def test_tws_hands_over_what_was_measured_here(
    server: ChatServer, endpoint: Endpoint, tiny: tuple[Path, dict[str, Item]]
) -> None:
    folder, items = tiny
    asked = system(endpoint, folder, "tws")
    asked.decide(items["switch"])
    text = server.parts("text")[0]["text"]
    assert text == measurements(asked._sessions, items["switch"])
    head, first, *_, last = [line for line in text.splitlines() if line[0].isdigit() or line.startswith("Measured")]
    assert head.startswith("Measured on the recording")
    values = [
        dict(part.strip().rsplit(" ", 1) for part in line.replace(" dBFS", "").split(": ")[1].split(","))
        for line in (first, last)
    ]
    assert float(values[0]["voice"]) > 0.9 > 0.7 > float(values[1]["voice"])
    assert float(values[0]["near"]) > float(values[1]["near"]) and float(values[0]["level"]) > float(values[1]["level"])
    assert "spread" not in text


def test_a_server_that_is_gone_ends_the_run_so_that_it_can_go_on(
    endpoint: Endpoint, server: ChatServer, tiny: tuple[Path, dict[str, Item]]
) -> None:
    server.answers = [
        hangs_up,
        hangs_up,
        hangs_up,
        hangs_up,
        hangs_up,
        hangs_up,
        hangs_up,
        hangs_up,
        says("[Mute]"),
        hangs_up,
    ]
    asked = system(endpoint, tiny[0])
    item = tiny[1]["request"]
    assert [asked.decide(item).error for _ in range(5)] == [
        "unreachable",
        "unreachable",
        None,
        "unreachable",
        "unreachable",
    ]
    with pytest.raises(InputError, match="not reached for 3 items in a row"):
        asked.decide(item)


def test_chunks_cover_the_sound_and_a_short_rest_joins_the_last() -> None:
    size = round(CHUNK_SECONDS * RATE)
    for length, sizes in (
        (size, [size]),
        (size + size // 2 - 1, [size + size // 2 - 1]),
        (size + size // 2, [size, size // 2]),
        (100, [100]),
        (2 * size + 5, [size, size + 5]),
    ):
        sound = np.arange(length, dtype=np.float32)
        chunks = in_chunks(sound)
        assert [len(chunk) for chunk in chunks] == sizes and np.array_equal(np.concatenate(chunks), sound)


def test_stretches_are_parted_by_pauses() -> None:
    speech = np.zeros(100, np.bool_)
    speech[[10, 11, 12, 20, 21, 40, 99]] = True
    assert spoken_stretches(speech) == [(0.32, 0.704), (1.28, 1.312), (3.168, 3.2)]
    assert spoken_stretches(np.zeros(5, np.bool_)) == []


def test_what_is_recorded_of_a_system_holds_no_key(
    server: ChatServer, tiny: tuple[Path, dict[str, Item]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k3y-s3cret")
    with Endpoint(server.url, "ear-1") as endpoint:
        facts = system(endpoint, tiny[0]).facts
    assert "s3cret" not in json.dumps(facts) and facts["endpoint"] == server.url and facts["temperature"] == 0
