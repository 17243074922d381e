"""Pipelined requests: sent before the previous one is answered."""

import asyncio
import logging
from typing import Any

import pytest

from duly.surfaces.http.network.connection import LINGER_BYTES, MOST_AHEAD
from tests.http.raw import on_served_loop, raw_server

pytestmark = pytest.mark.requirement("X1")

PLAIN = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
HELD = b"GET /held HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.mark.parametrize("ahead", [0, 1, 3])
@on_served_loop
async def test_a_disconnect_reaches_the_request_that_is_being_answered(
    ahead: int, caplog: pytest.LogCaptureFixture
) -> None:
    disconnected = asyncio.Event()

    async def until_disconnected(receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            """These are parts of the body."""
        disconnected.set()

    async with raw_server() as server:
        server.meanwhile = until_disconnected
        caller = await (await server.caller()).send(HELD + PLAIN * ahead)
        await server.unread.wait()
        caller.writer.transport.abort()
        await disconnected.wait()
        server.go_on.set()
        await server.turns()
        # Waiting requests are not started.
        assert [each["path"] for each in server.scopes] == ["/held"]
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


FOLLOWING = {
    "more": PLAIN * 5,
    "far more": PLAIN * (LINGER_BYTES // len(PLAIN) // 4),
    "an upgrade": PLAIN.replace(b"host", b"connection: upgrade\r\nupgrade: h2c\r\nhost"),
}


@pytest.mark.parametrize("following", FOLLOWING.values(), ids=FOLLOWING)
@on_served_loop
async def test_one_request_too_many_does_not_lose_earlier_answers(following: bytes) -> None:
    async with raw_server() as server:
        caller = await (await server.caller()).send(HELD + PLAIN * MOST_AHEAD + following)
        await server.unread.wait()
        await server.turns()
        server.go_on.set()
        answers = [await caller.answer() for _ in range(1 + MOST_AHEAD)]
        assert [status for status, _, _ in answers] == [200] * (1 + MOST_AHEAD)
        closing = [headers.get("connection") for _, headers, _ in answers]
        assert closing == [None] * MOST_AHEAD + ["close"]
        assert await caller.is_closed()
        assert len(server.scopes) == 1 + MOST_AHEAD


@on_served_loop
async def test_an_invalid_request_does_not_lose_earlier_answers() -> None:
    async with raw_server() as server:
        caller = await (await server.caller()).send(HELD + PLAIN + b"nonsense\r\n\r\n")
        server.go_on.set()
        assert await caller.status() == 200
        status, headers, _ = await caller.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert await caller.is_closed()
