"""Requests that are sent before the one in front is answered."""

import asyncio
import logging
from typing import Any

import pytest

from tests.api.raw import on_served_loop, standing

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
