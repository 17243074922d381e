"""Clients that keep the port waiting: each phase of a connection has a deadline."""

import asyncio
import logging
from typing import Any

import pytest

from duly.surfaces.http.network.connections import (
    BODY_RATE,
    BODY_SECONDS,
    HEAD_SECONDS,
    IDLE_SECONDS,
    LARGE_BODY,
    LARGE_BODY_RATE,
    LINGER_SECONDS,
    STALL_SECONDS,
)
from tests.http.raw import Caller, Stand, on_served_loop, standing

pytestmark = pytest.mark.requirement("X1")

PLAIN = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nhost: loc"
LENGTH = 20_000
POST = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % LENGTH
LARGE = 20_000_000
"""More than the system keeps for one who does not read."""


@on_served_loop
async def test_a_head_that_is_not_complete_in_time_is_answered_408_however_it_drips() -> None:
    async with standing() as stand:
        half = await (await stand.caller()).send(HALF)
        drip = await (await stand.caller()).send(HALF)
        second = await (await stand.caller()).send(PLAIN)
        assert await second.status() == 200
        await second.send(HALF)
        for _ in range(int(HEAD_SECONDS) - 1):
            await stand.pass_time(1)
            await drip.send(b"a")
        assert all(each.is_open() for each in (half, drip, second))
        await stand.pass_time(2)
        for each in (half, drip, second):
            status, headers, _ = await each.answer()
            assert (status, headers["connection"]) == (408, "close")
            assert await each.is_closed()


@on_served_loop
async def test_whoever_says_nothing_is_let_go_without_a_word() -> None:
    async with standing() as stand:
        silent = await stand.caller()
        idle = await (await stand.caller()).send(PLAIN)
        assert await idle.status() == 200
        await stand.pass_time(IDLE_SECONDS - 1)
        assert idle.is_open()
        await stand.pass_time(2)
        assert await idle.is_closed()
        assert silent.is_open()
        await stand.pass_time(HEAD_SECONDS - IDLE_SECONDS)
        assert await silent.is_closed()


@on_served_loop
async def test_a_body_may_be_slow_but_not_stand_still(caplog: pytest.LogCaptureFixture) -> None:
    async with standing() as stand:
        stuck = await (await stand.caller()).send(POST + b"a")
        steady = await (await stand.caller()).send(POST)
        await stand.pass_time(BODY_SECONDS - 1)
        assert stuck.is_open()
        for _ in range(LENGTH // BODY_RATE):
            await steady.send(b"a" * BODY_RATE)
            await stand.pass_time(1)
        assert await steady.status() == 200
        assert await stuck.status() == 408
        assert await stuck.is_closed()
        assert stand.bodies == [b"a" * LENGTH]
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


@on_served_loop
async def test_a_large_body_may_not_be_that_slow() -> None:
    rest = int(BODY_SECONDS) * 2 * LARGE_BODY_RATE
    large = POST.replace(b"%d" % LENGTH, b"%d" % (LARGE_BODY + 1 + rest)) + b"a" * (LARGE_BODY + 1)
    async with standing() as stand:
        slow = await (await stand.caller()).send(large)
        steady = await (await stand.caller()).send(large)
        while sum(each.body_bytes for each in stand.connections._open) < 2 * LARGE_BODY + 2:
            await stand.turns()
        refused = asyncio.create_task(slow.status())
        for _ in range(rest // LARGE_BODY_RATE):
            if not refused.done():
                slow.writer.write(b"a" * BODY_RATE)
            await steady.send(b"a" * LARGE_BODY_RATE)
            await stand.pass_time(1)
        assert await refused == 408
        assert await steady.status() == 200


@on_served_loop
async def test_whoever_waits_for_us_is_never_too_slow() -> None:
    expect = POST.replace(b"\r\n\r\n", b"\r\nexpect: 100-continue\r\n\r\n")
    async with standing() as stand:
        held = await (await stand.caller()).send(PLAIN.replace(b"/ ", b"/held "))
        continued = await (await stand.caller()).send(expect.replace(b"/ ", b"/held "))
        # More than is read ahead: we are the ones who do not read.
        large = POST.replace(b"/ ", b"/held ").replace(b"%d" % LENGTH, b"400000")
        unread = await (await stand.caller()).send(large + b"a" * 300_000)
        await stand.pass_time(10 * STALL_SECONDS)
        stand.go_on.set()
        assert await held.status() == 200
        assert await continued.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await continued.send(b"a" * LENGTH)
        assert await continued.status() == 200
        await unread.send(b"a" * 100_000)
        assert await unread.status() == 200


@on_served_loop
async def test_whoever_does_not_read_the_answer_is_cut_off() -> None:
    ask = b"GET /?%d HTTP/1.1\r\n\r\n" % LARGE
    async with standing() as stand:
        stalled = await (await stand.caller()).send(ask)
        last = await (await stand.caller()).send(
            ask.replace(b"1.1\r\n", b"1.1\r\nconnection: close\r\n")
        )
        reading = await (await stand.caller()).send(ask)
        while len(stand.scopes) < 3:
            await stand.turns()
        for _ in range(int(STALL_SECONDS) + 2):
            await reading.reader.read(100_000)
            await stand.pass_time(1)
        for each in (stalled, last):
            assert len(await until_cut(each)) < LARGE
        assert len(await reading.reader.readexactly(LARGE // 2)) == LARGE // 2


@on_served_loop
async def test_an_answer_before_the_body_ended_is_no_leave_to_go_on_for_ever() -> None:
    async with standing() as stand:
        early = await (await stand.caller()).send(POST.replace(b"/ ", b"/early "))
        assert await early.status() == 200
        for _ in range(int(BODY_SECONDS) + 2):
            early.writer.write(b"a")
            await stand.pass_time(1)
        assert await early.is_closed()


@on_served_loop
async def test_a_body_that_goes_on_after_its_answer_may_arrive_and_the_next_request_too() -> None:
    async with standing() as stand:
        early = await (await stand.caller()).send(POST.replace(b"/ ", b"/early "))
        assert await early.status() == 200
        for _ in range(LENGTH // BODY_RATE):
            await early.send(b"a" * BODY_RATE)
            await stand.pass_time(1)
        assert await (await early.send(PLAIN)).status() == 200
        await stand.pass_time(IDLE_SECONDS + 1)
        assert await early.is_closed()


@on_served_loop
async def test_whoever_was_refused_and_goes_on_is_cut_off() -> None:
    async with standing() as stand:
        refused = await (await stand.caller()).send(b"nonsense\r\n\r\n")
        assert await refused.status() == 400
        for _ in range(int(LINGER_SECONDS) + 2):
            refused.writer.write(b"a")
            await stand.pass_time(1)
        assert stand.connections._open == {}


@on_served_loop
async def test_the_log_says_how_many_and_not_too_often(caplog: pytest.LogCaptureFixture) -> None:
    async with standing() as stand:
        await hear_nonsense(stand)
        await stand.pass_time(1)
        for _ in range(7):
            await hear_nonsense(stand)
        await stand.pass_time(8)
        assert closed(caplog) == [{"not HTTP": 1}]
        await stand.pass_time(2)
        assert closed(caplog) == [{"not HTTP": 1}, {"not HTTP": 7}]


async def hear_nonsense(stand: Stand) -> None:
    caller = await (await stand.caller()).send(b"nonsense\r\n\r\n")
    assert await caller.status() == 400


async def until_cut(caller: Caller) -> bytes:
    found = b""
    try:
        while part := await caller.reader.read(1_000_000):
            found += part
    except ConnectionError:
        """It was cut."""
    return found


def closed(caplog: pytest.LogCaptureFixture) -> list[Any]:
    """What each warning says was closed."""
    found = [each for each in caplog.records if each.name == "duly.http"]
    assert all(each.getMessage().startswith("HTTP connections closed: ") for each in found)
    return [each.__dict__["facts"]["closed"] for each in found]
