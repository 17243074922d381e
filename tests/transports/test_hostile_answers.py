"""Endless answers are cut off early and cost little."""

from __future__ import annotations

import asyncio
import json
import time
from typing import cast

import pytest

from duly.domain.deliveries.outcomes import Completed, Failed
from duly.records.reason import Reason
from duly.testing import VirtualClock
from duly.transports.webhooks.answers import (
    MOST_BODY,
    MOST_HEAD,
    MOST_INTERIM,
    AnswerRefused,
    Heard,
)
from duly.transports.webhooks.connection import Connection
from duly.transports.webhooks.timing import ExchangeTiming
from tests.transports.receiver import Talk, answer, drips, receiver, says
from tests.transports.sending import sender

pytestmark = pytest.mark.requirement("X2", "C5")
READ = 256 * 1024
"""How many bytes an event loop reads at once."""
MOST_SECONDS = 0.25
OK, HINTS = b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
STREAMS: dict[str, tuple[bytes, bytes]] = {
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "interim answers with a header": (b"", HINTS),
    "interim answers of LF alone": (b"", b"HTTP/1.1 100\n\n"),
    "blank lines": (b"", b"\r\n"),
    "headers": (OK, b"a: b\r\n"),
    "one long header": (OK, b"aaaaaaaa"),
    "lengths": (OK, b"Content-Length: x\r\n"),
    "another protocol": (
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"\n",
    ),
    "another protocol that was not named": (b"HTTP/1.1 101 Switching\r\n\r\n", b"\n"),
    "answers without a body": (b"", OK + b"Content-Length: 0\r\n\r\n"),
    "answers with a body": (b"", OK + b"Content-Length: 1\r\n\r\nx"),
    "answers in chunks": (b"", CHUNKED + b"1\r\nx\r\n0\r\n\r\n"),
    "small chunks": (CHUNKED, b"1\r\nx\r\n"),
    "chunk extensions": (CHUNKED, b"1;aaaaaaaaaaaaaaaa\r\nx\r\n"),
    "trailers": (CHUNKED + b"0\r\n", b"a: b\r\n"),
    "no content, and more": (b"HTTP/1.1 204 No\r\n\r\n", b"xxxxxxxx"),
    "nothing of HTTP": (b"", b"SSH-2.0-OpenSSH\r\n\r\n"),
}


class Transport:
    """A connection that records whether it is still read."""

    def __init__(self) -> None:
        self.reads = True

    def abort(self) -> None:
        self.reads = False

    def write(self, data: bytes) -> None:
        """Sent to nobody."""


class Asked:
    """A request that waits for its answer on a connection without a peer."""

    def __init__(self, early: bytes = b"", *, is_closed: bool = False) -> None:
        self.heard, self.transport = Heard(ExchangeTiming(time.monotonic)), Transport()
        self.connection = Connection(asyncio.get_running_loop())
        self.connection.connection_made(cast(asyncio.Transport, self.transport))
        if early:
            self.connection.data_received(early)
        if is_closed:
            self.connection.connection_lost(None)
        self.exchange = asyncio.ensure_future(self.connection.exchange(b"", self.heard))


async def asked() -> Asked:
    made = Asked()
    await asyncio.sleep(0)
    return made


@pytest.mark.parametrize("stream", STREAMS)
async def test_no_endless_stream_is_read_for_long(stream: str) -> None:
    first, unit = STREAMS[stream]
    request = await asked()
    data, reads = (first + unit * (READ // len(unit)))[:READ], 0
    while request.transport.reads:
        began, reads = time.thread_time(), reads + 1
        request.connection.data_received(data)
        assert time.thread_time() - began < MOST_SECONDS
        assert reads <= 2
        data = (unit * (READ // len(unit) + 1))[:READ]
    assert len(request.heard.body) <= MOST_BODY
    await asyncio.wait([request.exchange])
    assert request.exchange.exception() or request.exchange.result() is False


@pytest.mark.parametrize("packet", [b"\r" * 1000, b"HTTP/1.1 100 A" + b"b" * 8000])
async def test_bytes_before_an_answer_are_counted_in_small_packets_too(packet: bytes) -> None:
    request = await asked()
    request.connection.data_received(packet)
    for _ in range(MOST_HEAD // len(packet)):
        assert request.transport.reads
        request.connection.data_received(packet)
    assert not request.transport.reads
    with pytest.raises(AnswerRefused, match="longer than 64 KiB"):
        await request.exchange


@pytest.mark.parametrize(
    ("first", "unit", "problem"),
    [
        (b"", HINTS, "more than 8 interim answers"),
        (b"", b"\r\n\r\n", "more than 8 interim answers"),
        (OK, b"a: b\r\n", "longer than 64 KiB"),
        (HINTS, b"HTTP/1.1 103 Hint\r\nLink: " + b"x" * 20_000 + b"\r\n\r\n", "longer than 64 KiB"),
    ],
    ids=["hints", "blank lines", "headers", "long hints"],
)
async def test_an_answer_that_never_begins_is_cut_off_long_before_the_deadline(
    first: bytes, unit: bytes, problem: str
) -> None:
    async with sender(VirtualClock()) as here, receiver(endless(first, unit)) as there:
        outcome = await here.send(there.url())
    assert isinstance(outcome, Failed)
    assert outcome.reason is Reason.TRANSPORT_UNAVAILABLE
    assert problem in outcome.error
    assert outcome.again is None


def endless(first: bytes, unit: bytes) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while True:
            writer.write(unit * 100)
            await writer.drain()

    return talk


async def test_the_deadline_applies_while_interim_answers_arrive() -> None:
    talk = drips(HINTS + b"HTTP/1.1 103 Hint\r\nLink: ", b"x")
    async with sender(VirtualClock(), timeout=1) as here, receiver(talk) as there:
        outcome = await here.send(there.url())
    assert isinstance(outcome, Failed)
    assert outcome.reason is Reason.TIMEOUT_EXCEEDED


@pytest.mark.parametrize("apart", [True, False])
async def test_a_usual_number_of_interim_answers_is_accepted(apart: bool) -> None:
    parts = [HINTS] * MOST_INTERIM + [answer(200, b"fine")]
    talk = says(*parts) if apart else says(b"".join(parts))
    async with sender(VirtualClock()) as here, receiver(talk) as there:
        outcome = await here.send(there.url())
    assert isinstance(outcome, Completed)
    assert json.loads(outcome.answer or "")["excerpt"] == "fine"


async def test_a_head_may_be_as_long_as_the_documented_limit() -> None:
    lines = [f"X-{n}: {'x' * 8000}" for n in range(MOST_HEAD // 8000 - 1)]
    async with sender(VirtualClock()) as here:
        async with receiver(says(answer(200, b"", *lines))) as there:
            assert isinstance(await here.send(there.url()), Completed)
        async with receiver(says(answer(200, b"", *lines, *lines))) as there:
            outcome = await here.send(there.url())
    assert isinstance(outcome, Failed)
    assert "longer than 64 KiB" in outcome.error


async def test_a_connection_with_bytes_after_its_answer_is_not_reused() -> None:
    async with sender(VirtualClock()) as here, receiver(talkative) as there:
        for _ in range(2):
            assert isinstance(await here.send(there.url()), Completed)
    assert there.connections == 2


async def talkative(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers the first request, and then sends more answers until the connection is closed."""
    lasting = answer(200).replace(b"Connection: close\r\n", b"")
    writer.write(lasting)
    await writer.drain()
    writer.write(lasting * 1000)
    await reader.read()


async def test_an_answer_before_the_request_is_the_answer() -> None:
    request = Asked(answer(503, b"busy"))
    assert await request.exchange is False
    assert (request.heard.status, request.heard.body) == (503, b"busy")


async def test_an_answer_before_the_request_and_the_end_are_the_answer() -> None:
    request = Asked(answer(503, b"busy"), is_closed=True)
    assert await request.exchange is False
    assert (request.heard.status, request.heard.body) == (503, b"busy")


async def test_a_connection_that_is_closed_before_the_request_is_no_answer() -> None:
    request = Asked(b"", is_closed=True)
    with pytest.raises(ConnectionResetError, match="without an answer"):
        await request.exchange


async def test_little_is_kept_of_what_comes_before_the_request() -> None:
    assert not Asked(b"x" * (MOST_HEAD + 1)).transport.reads
