"""Requests that are sent before the one in front is answered."""

import asyncio
import logging
from typing import Any

import pytest

from duly.surfaces.http.network.connection import LINGER_BYTES, MOST_AHEAD
from tests.http.raw import on_served_loop, standing

pytestmark = pytest.mark.requirement("X1")

PLAIN = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
HELD = b"GET /held HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.mark.parametrize("ahead", [0, 1, 3])
@on_served_loop
async def test_whoever_hangs_up_is_heard_by_the_request_that_is_answered(
    ahead: int, caplog: pytest.LogCaptureFixture
) -> None:
    heard = asyncio.Event()

    async def until_hung_up(receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            """It is the body."""
        heard.set()

    async with standing() as stand:
        stand.meanwhile = until_hung_up
        caller = await (await stand.caller()).send(HELD + PLAIN * ahead)
        await stand.unread.wait()
        caller.writer.transport.abort()
        await heard.wait()
        stand.go_on.set()
        await stand.turns()
        # Those who wait for their turn are not begun.
        assert [each["path"] for each in stand.scopes] == ["/held"]
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


FOLLOWING = {
    "more": PLAIN * 5,
    "far more": PLAIN * (LINGER_BYTES // len(PLAIN) // 4),
    "an upgrade": PLAIN.replace(b"host", b"connection: upgrade\r\nupgrade: h2c\r\nhost"),
}


@pytest.mark.parametrize("following", FOLLOWING.values(), ids=FOLLOWING)
@on_served_loop
async def test_one_request_too_many_costs_no_answer_of_those_before_it(following: bytes) -> None:
    async with standing() as stand:
        caller = await (await stand.caller()).send(HELD + PLAIN * MOST_AHEAD + following)
        await stand.unread.wait()
        await stand.turns()
        stand.go_on.set()
        answers = [await caller.answer() for _ in range(1 + MOST_AHEAD)]
        assert [status for status, _, _ in answers] == [200] * (1 + MOST_AHEAD)
        closing = [headers.get("connection") for _, headers, _ in answers]
        assert closing == [None] * MOST_AHEAD + ["close"]
        assert await caller.is_closed()
        assert len(stand.scopes) == 1 + MOST_AHEAD


@on_served_loop
async def test_what_is_no_request_costs_no_answer_of_those_before_it_either() -> None:
    async with standing() as stand:
        caller = await (await stand.caller()).send(HELD + PLAIN + b"nonsense\r\n\r\n")
        stand.go_on.set()
        assert await caller.status() == 200
        status, headers, _ = await caller.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert await caller.is_closed()
