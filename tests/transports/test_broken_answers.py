"""Answers with a broken body: the status decides, and the attempt's record has a note.

The head is sent in one packet with the body, and in its own packet: a parser may handle one read
with both differently from two reads.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct

import pytest

from duly.domain.deliveries.outcomes import Completed, Failed
from duly.records.reason import Reason
from duly.testing import VirtualClock
from tests.transports.receiver import Talk, drips, receiver
from tests.transports.sending import Sender, sender

BODIES: dict[str, tuple[bytes, bytes]] = {
    "is cut short": (b"Content-Length: 1000\r\n", b"half"),
    "is not there": (b"Content-Length: 1000\r\n", b""),
    "has a wrong chunk": (b"Transfer-Encoding: chunked\r\n", b"zz\r\n"),
    "has a chunk that is cut short": (b"Transfer-Encoding: chunked\r\n", b"ff\r\nhalf"),
    "has no last chunk": (b"Transfer-Encoding: chunked\r\n", b"4\r\nhalf\r\n"),
    "has no number for its length": (b"Content-Length: many\r\n", b"half"),
    "is followed by more": (b"Content-Length: 2\r\n", b"okMORE"),
    "has two lengths": (b"Content-Length: 4\r\nContent-Length: 5\r\n", b"half"),
    "has a length and chunks": (
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"zz\r\nhalf",
    ),
}
MEANINGS = {200: None, 503: Reason.DEPENDENCY_FAILURE, 404: Reason.VALIDATION_FAILURE}


def says_apart(head: bytes, body: bytes, *, reset: bool = False) -> Talk:
    """A server that sends its head, then the rest, and closes the connection."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        writer.write(head)
        await writer.drain()
        # Both sides share the event loop: after these turns the client has read the head.
        for _ in range(20):
            await asyncio.sleep(0)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.write(body)

    return talk


def says_together(head: bytes, body: bytes) -> Talk:
    """A server that sends everything in one packet and closes the connection."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head + body)

    return talk


def head(status: int, *fields: bytes) -> bytes:
    return b"HTTP/1.1 %d Whatever\r\n" % status + b"".join(fields) + b"\r\n"


def record_of(outcome: Completed | Failed) -> dict[str, object]:
    found: dict[str, object] = json.loads(outcome.answer or "{}")
    return found


async def outcome_of(here: Sender, talk: Talk) -> Completed | Failed:
    async with receiver(talk) as there:
        outcome = await here.send(there.url())
    assert isinstance(outcome, Completed | Failed)
    return outcome


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("says", [says_together, says_apart])
@pytest.mark.parametrize("status", MEANINGS)
@pytest.mark.parametrize("body", BODIES)
async def test_the_status_decides_whatever_happens_to_the_body(
    body: str, status: int, says: type[Talk]
) -> None:
    fields, rest = BODIES[body]
    async with sender(VirtualClock()) as here:
        outcome = await outcome_of(here, says(head(status, fields), rest))
    reason = None if isinstance(outcome, Completed) else outcome.reason
    assert reason is MEANINGS[status]
    assert record_of(outcome)["status"] == status
    assert "body" in str(record_of(outcome)["note"])


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("says", [says_together, says_apart])
@pytest.mark.parametrize(
    "fields", [b"Content-Length: 7\r\n", b"", b"Transfer-Encoding: chunked\r\n"]
)
async def test_a_204_with_content_is_a_204(fields: bytes, says: type[Talk]) -> None:
    async with sender(VirtualClock()) as here:
        outcome = await outcome_of(here, says(head(204, fields), b"content"))
    assert isinstance(outcome, Completed)
    assert record_of(outcome)["status"] == 204
    if fields or says is says_together:
        assert "body" in str(record_of(outcome)["note"])


@pytest.mark.requirement("C5")
async def test_after_a_reset_in_the_body_the_status_decides() -> None:
    async with sender(VirtualClock()) as here:
        outcome = await outcome_of(
            here, says_apart(head(200, b"Content-Length: 9\r\n"), b"", reset=True)
        )
    assert isinstance(outcome, Completed)
    assert "body" in str(record_of(outcome)["note"])


@pytest.mark.requirement("C5")
@pytest.mark.parametrize(
    ("status", "kind"), [(200, Completed), (503, Failed)], ids=["completed", "failed"]
)
async def test_after_a_body_that_times_out_the_status_decides(status: int, kind: type) -> None:
    async with sender(VirtualClock(), timeout=1) as here:
        outcome = await outcome_of(here, drips(head(status), b"x"))
    assert isinstance(outcome, kind)
    assert record_of(outcome)["status"] == status
    assert "within 1 seconds" in str(record_of(outcome)["note"])
    assert str(record_of(outcome)["excerpt"]).startswith("xx")


@pytest.mark.requirement("C5", "F2")
async def test_retry_after_is_used_even_with_a_broken_body() -> None:
    fields = b"Retry-After: 7200\r\nContent-Length: 1000\r\n"
    async with sender(VirtualClock()) as here:
        outcome = await outcome_of(here, says_together(head(503, fields), b"half"))
    assert isinstance(outcome, Failed)
    assert outcome.at_least == 7200
    assert record_of(outcome)["excerpt"] == "half"


@pytest.mark.requirement("C5")
@pytest.mark.parametrize(
    "head_bytes",
    [b"HTTP/1.1 200 OK\r\nX-A: b", b"HTTP/1.1 200 OK\r\nX A: b\r\n\r\n", b"200 OK\r\n\r\n"],
)
async def test_a_head_that_is_cut_off_or_not_http_is_not_an_answer(head_bytes: bytes) -> None:
    async with sender(VirtualClock()) as here:
        outcome = await outcome_of(here, says_together(head_bytes, b""))
    assert isinstance(outcome, Failed)
    assert outcome.reason is Reason.TRANSPORT_UNAVAILABLE
    assert "status" not in record_of(outcome)


@pytest.mark.requirement("C5")
async def test_after_a_broken_answer_a_new_connection_is_used() -> None:
    async with sender(VirtualClock()) as here, receiver(_odd_then_silent) as there:
        first, second = await here.send(there.url()), await here.send(there.url())
    assert isinstance(first, Completed)
    assert isinstance(second, Completed)
    assert there.connections == 2


async def _odd_then_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # Content that looks like an answer: it must not be read as the answer to the next request.
    inner = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
    writer.write(head(204, b"Content-Length: %d\r\n" % len(inner)) + inner)
    await writer.drain()
    await reader.read()


@pytest.mark.requirement("C5")
async def test_an_answer_with_lf_line_ends_is_read() -> None:
    async with sender(VirtualClock()) as here:
        outcome = await outcome_of(
            here, says_apart(b"HTTP/1.1 200 OK\nContent-Length: 2\n\n", b"ok")
        )
    assert isinstance(outcome, Completed)
    assert record_of(outcome)["excerpt"] == "ok"
    assert "note" not in record_of(outcome)


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_an_answer_is_the_same_in_packets_of_any_size(size: int) -> None:
    whole = head(100) + head(503, b"Content-Length: 4\r\nRetry-After: 9\r\n") + b"busy"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(0, len(whole), size):
            writer.write(whole[place : place + size])
            await writer.drain()
            for _ in range(4):
                await asyncio.sleep(0)

    async with sender(VirtualClock()) as here:
        outcome = await outcome_of(here, talk)
    assert isinstance(outcome, Failed)
    assert outcome.at_least == 9
    assert record_of(outcome)["excerpt"] == "busy"
    assert "note" not in record_of(outcome)


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("odd", [b"X-A: a\r\n b\r\n", b"X-A: a\x01b\r\n", b"X-A: caf\xe9\r\n"])
async def test_an_odd_header_does_not_hide_the_status(odd: bytes) -> None:
    async with sender(VirtualClock()) as here:
        outcome = await outcome_of(
            here, says_together(head(200, odd, b"Content-Length: 2\r\n"), b"ok")
        )
    assert isinstance(outcome, Completed)


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("says", [says_together, says_apart])
async def test_after_a_broken_interim_answer_nothing_is_an_answer(says: type[Talk]) -> None:
    inner = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
    rest = head(200, b"Content-Length: %d\r\n" % len(inner)) + inner
    async with sender(VirtualClock()) as here:
        outcome = await outcome_of(here, says(head(100, b"Content-Length: x\r\n"), rest))
    assert isinstance(outcome, Failed)
    assert outcome.reason is Reason.TRANSPORT_UNAVAILABLE


@pytest.mark.requirement("C5")
async def test_an_interim_answer_has_no_body() -> None:
    early = head(150, b"Content-Length: 5\r\n") + b"early"
    async with sender(VirtualClock()) as here:
        outcome = await outcome_of(
            here, says_together(early, head(200, b"Content-Length: 2\r\n") + b"ok")
        )
    assert isinstance(outcome, Failed)
    assert outcome.reason is Reason.TRANSPORT_UNAVAILABLE


@pytest.mark.requirement("C5")
async def test_a_status_below_100_is_no_answer() -> None:
    async with sender(VirtualClock()) as here:
        outcome = await outcome_of(here, says_together(head(99).replace(b" 99", b" 099"), b""))
    assert isinstance(outcome, Failed)
    assert "below 100" in outcome.error


@pytest.mark.requirement("C5", "F2")
@pytest.mark.parametrize(
    ("fields", "rest"),
    [
        (b"Content-Length: 0\r\n", head(503, b"Retry-After: 77\r\n")),
        (b"Transfer-Encoding: chunked\r\n", b"0\r\nRetry-After: 77\r\n\r\n"),
    ],
    ids=["another answer", "trailers"],
)
async def test_only_the_head_of_an_answer_says_when_to_retry(fields: bytes, rest: bytes) -> None:
    async with sender(VirtualClock()) as here:
        outcome = await outcome_of(here, says_together(head(503, fields), rest))
    assert isinstance(outcome, Failed)
    assert outcome.at_least is None


@pytest.mark.requirement("C5")
async def test_after_a_304_with_a_length_a_new_connection_is_used() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head(304, b"Content-Length: 5\r\n"))

    async with sender(VirtualClock()) as here, receiver(talk, lasts=True) as there:
        for _ in range(2):
            assert record_of(await here.send(there.url()))["status"] == 304
    assert there.connections == 2
