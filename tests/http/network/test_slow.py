"""Slow clients: each phase of a connection has a deadline."""

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
from tests.http.raw import Caller, RawServer, on_served_loop, raw_server

pytestmark = pytest.mark.requirement("X1")

PLAIN = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nhost: loc"
LENGTH = 20_000
POST = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % LENGTH
LARGE = 20_000_000
"""More than the kernel buffers for a client that does not read."""


@on_served_loop
async def test_a_head_that_is_not_complete_in_time_is_answered_408() -> None:
    async with raw_server() as server:
        half = await (await server.caller()).send(HALF)
        drip = await (await server.caller()).send(HALF)
        second = await (await server.caller()).send(PLAIN)
        assert await second.status() == 200
        await second.send(HALF)
        for _ in range(int(HEAD_SECONDS) - 1):
            await server.pass_time(1)
            await drip.send(b"a")
        assert all(each.is_open() for each in (half, drip, second))
        await server.pass_time(2)
        for each in (half, drip, second):
            status, headers, _ = await each.answer()
            assert (status, headers["connection"]) == (408, "close")
            assert await each.is_closed()


@on_served_loop
async def test_a_silent_connection_is_closed_without_an_answer() -> None:
    async with raw_server() as server:
        silent = await server.caller()
        idle = await (await server.caller()).send(PLAIN)
        assert await idle.status() == 200
        await server.pass_time(IDLE_SECONDS - 1)
        assert idle.is_open()
        await server.pass_time(2)
        assert await idle.is_closed()
        assert silent.is_open()
        await server.pass_time(HEAD_SECONDS - IDLE_SECONDS)
        assert await silent.is_closed()


@on_served_loop
async def test_a_body_may_be_slow_but_not_stall(caplog: pytest.LogCaptureFixture) -> None:
    async with raw_server() as server:
        stuck = await (await server.caller()).send(POST + b"a")
        steady = await (await server.caller()).send(POST)
        await server.pass_time(BODY_SECONDS - 1)
        assert stuck.is_open()
        for _ in range(LENGTH // BODY_RATE):
            await steady.send(b"a" * BODY_RATE)
            await server.pass_time(1)
        assert await steady.status() == 200
        assert await stuck.status() == 408
        assert await stuck.is_closed()
        assert server.bodies == [b"a" * LENGTH]
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


@on_served_loop
async def test_a_large_body_needs_a_higher_rate() -> None:
    rest = int(BODY_SECONDS) * 2 * LARGE_BODY_RATE
    large = POST.replace(b"%d" % LENGTH, b"%d" % (LARGE_BODY + 1 + rest)) + b"a" * (LARGE_BODY + 1)
    async with raw_server() as server:
        slow = await (await server.caller()).send(large)
        steady = await (await server.caller()).send(large)
        while sum(each.body_bytes for each in server.connections._open) < 2 * LARGE_BODY + 2:
            await server.turns()
        refused = asyncio.create_task(slow.status())
        for _ in range(rest // LARGE_BODY_RATE):
            if not refused.done():
                slow.writer.write(b"a" * BODY_RATE)
            await steady.send(b"a" * LARGE_BODY_RATE)
            await server.pass_time(1)
        assert await refused == 408
        assert await steady.status() == 200


@on_served_loop
async def test_a_client_that_waits_for_the_server_is_never_too_slow() -> None:
    expect = POST.replace(b"\r\n\r\n", b"\r\nexpect: 100-continue\r\n\r\n")
    async with raw_server() as server:
        held = await (await server.caller()).send(PLAIN.replace(b"/ ", b"/held "))
        continued = await (await server.caller()).send(expect.replace(b"/ ", b"/held "))
        # More than the server reads ahead: here the server does not read.
        large = POST.replace(b"/ ", b"/held ").replace(b"%d" % LENGTH, b"400000")
        unread = await (await server.caller()).send(large + b"a" * 300_000)
        await server.pass_time(10 * STALL_SECONDS)
        server.go_on.set()
        assert await held.status() == 200
        assert await continued.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await continued.send(b"a" * LENGTH)
        assert await continued.status() == 200
        await unread.send(b"a" * 100_000)
        assert await unread.status() == 200


@on_served_loop
async def test_a_client_that_does_not_read_its_answer_is_disconnected() -> None:
    ask = b"GET /?%d HTTP/1.1\r\n\r\n" % LARGE
    async with raw_server() as server:
        stalled = await (await server.caller()).send(ask)
        last = await (await server.caller()).send(
            ask.replace(b"1.1\r\n", b"1.1\r\nconnection: close\r\n")
        )
        reading = await (await server.caller()).send(ask)
        while len(server.scopes) < 3:
            await server.turns()
        for _ in range(int(STALL_SECONDS) + 2):
            await reading.reader.read(100_000)
            await server.pass_time(1)
        for each in (stalled, last):
            assert len(await until_cut(each)) < LARGE
        assert len(await reading.reader.readexactly(LARGE // 2)) == LARGE // 2


@on_served_loop
async def test_after_an_early_answer_the_body_has_a_deadline() -> None:
    async with raw_server() as server:
        early = await (await server.caller()).send(POST.replace(b"/ ", b"/early "))
        assert await early.status() == 200
        for _ in range(int(BODY_SECONDS) + 2):
            early.writer.write(b"a")
            await server.pass_time(1)
        assert await early.is_closed()


@on_served_loop
async def test_after_an_early_answer_the_body_and_the_next_request_may_arrive() -> None:
    async with raw_server() as server:
        early = await (await server.caller()).send(POST.replace(b"/ ", b"/early "))
        assert await early.status() == 200
        for _ in range(LENGTH // BODY_RATE):
            await early.send(b"a" * BODY_RATE)
            await server.pass_time(1)
        assert await (await early.send(PLAIN)).status() == 200
        await server.pass_time(IDLE_SECONDS + 1)
        assert await early.is_closed()


@on_served_loop
async def test_a_refused_client_that_keeps_sending_is_disconnected() -> None:
    async with raw_server() as server:
        refused = await (await server.caller()).send(b"nonsense\r\n\r\n")
        assert await refused.status() == 400
        for _ in range(int(LINGER_SECONDS) + 2):
            refused.writer.write(b"a")
            await server.pass_time(1)
        assert server.connections._open == {}


@on_served_loop
async def test_closed_connections_are_logged_with_their_number_and_not_too_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with raw_server() as server:
        await send_nonsense(server)
        await server.pass_time(1)
        for _ in range(7):
            await send_nonsense(server)
        await server.pass_time(8)
        assert closed(caplog) == [{"not HTTP": 1}]
        await server.pass_time(2)
        assert closed(caplog) == [{"not HTTP": 1}, {"not HTTP": 7}]


async def send_nonsense(server: RawServer) -> None:
    caller = await (await server.caller()).send(b"nonsense\r\n\r\n")
    assert await caller.status() == 400


async def until_cut(caller: Caller) -> bytes:
    found = b""
    try:
        while part := await caller.reader.read(1_000_000):
            found += part
    except ConnectionError:
        """The connection was closed."""
    return found


def closed(caplog: pytest.LogCaptureFixture) -> list[Any]:
    """The numbers of closed connections in each warning."""
    found = [each for each in caplog.records if each.name == "duly.http"]
    assert all(each.getMessage().startswith("HTTP connections closed: ") for each in found)
    return [each.__dict__["facts"]["closed"] for each in found]
