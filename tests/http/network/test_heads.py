"""Limits of each part of a request before authentication."""

import gc
import itertools
from collections.abc import Callable

import pytest

from duly.surfaces.http.network.connection import (
    HEAD_BYTES,
    LINE_BYTES,
    MOST_AHEAD,
    MOST_HEADERS,
    Connection,
)
from tests.http.raw import PROBLEM, on_served_loop, raw_server

pytestmark = pytest.mark.requirement("X1", "S2")

PLAIN = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"


def line(size: int) -> bytes:
    return b"GET /" + b"a" * (size - 1) + b" HTTP/1.1\r\nhost: localhost\r\n\r\n"


def count(many: int) -> bytes:
    headers = b"".join(b"x-%d: a\r\n" % number for number in range(many - 1))
    return b"GET / HTTP/1.1\r\nhost: localhost\r\n" + headers + b"\r\n"


def size(many: int) -> bytes:
    fixed = len("/") + len("host: localhost\r\n") + len("x: \r\n")
    value = b"a" * (many - fixed)
    return b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + value + b"\r\n\r\n"


LIMITS = [(line, LINE_BYTES, 414), (count, MOST_HEADERS, 431), (size, HEAD_BYTES, 431)]


@pytest.mark.parametrize(("made", "limit", "status"), LIMITS)
@on_served_loop
async def test_a_head_at_its_limit_is_accepted_and_a_larger_one_is_refused(
    made: Callable[[int], bytes], limit: int, status: int
) -> None:
    async with raw_server() as server:
        for part, before in itertools.product((1_000_000, 16_384, 5000), (b"", PLAIN)):
            caller = await server.caller()
            if before:
                assert await (await caller.send(before)).status() == 200
            await caller.send(*parts(made(limit), part))
            assert await caller.status() == 200
            await caller.send(*parts(made(limit + 1), part))
            found, headers, body = await caller.answer()
            assert (found, headers["content-type"]) == (status, PROBLEM)
            assert str(limit) in body["detail"]
            assert headers["connection"] == "close"
            assert await caller.is_closed()


ENDLESS = {
    "line": b"GET /",
    "method": b"",
    "name": b"GET / HTTP/1.1\r\n",
    "value": b"GET / HTTP/1.1\r\nx: ",
    "trailer": CHUNKED + b"1\r\na\r\n0\r\nx: ",
    "extension": CHUNKED + b"1;",
}
FLOODS = {
    **{name: begin + b"a" * 4_000_000 for name, begin in ENDLESS.items()},
    "blank lines": b"\r\n" * 500_000,
    "headers": b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 500_000,
    "trailers": CHUNKED + b"1\r\na\r\n0\r\n" + b"x: y\r\n" * 500_000,
}


@on_served_loop
async def test_endless_requests_are_refused_soon() -> None:
    async with raw_server() as server:
        for name, flood in FLOODS.items():
            caller = await server.caller()
            caller.writer.write(flood)
            assert await caller.status() in (400, 414, 431), name
            await caller.is_closed()


@on_served_loop
async def test_refused_connections_leave_nothing_in_memory() -> None:
    before = alive()
    async with raw_server() as server:
        for refused in (line(LINE_BYTES + 1), count(MOST_HEADERS + 1), size(HEAD_BYTES + 1)):
            caller = await (await server.caller()).send(refused)
            await caller.status()
            caller.writer.close()
        while server.connections._open:
            await server.turns()
        assert alive() <= before


@on_served_loop
async def test_trailers_are_limited_and_never_become_headers() -> None:
    async with raw_server() as server:
        caller = await server.caller()
        await caller.send(CHUNKED + b"1\r\na\r\n0\r\nauthorization: Bearer duly_x\r\n\r\n" + PLAIN)
        assert [await caller.status(), await caller.status()] == [200, 200]
        assert server.bodies[0] == b"a"
        assert all(b"authorization" not in dict(each["headers"]) for each in server.scopes)
        many = b"".join(b"x-%d: a\r\n" % number for number in range(MOST_HEADERS + 1))
        await caller.send(CHUNKED + b"1\r\na\r\n0\r\n" + many + b"x")
        assert await caller.status() == 431


@on_served_loop
async def test_a_large_body_does_not_count_as_head() -> None:
    head = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 300000\r\n\r\n"
    chunk = b"%x\r\n" % 100_000 + b"b" * 100_000 + b"\r\n"
    async with raw_server() as server:
        caller = await server.caller()
        await caller.send(head + b"a" * 300_000 + CHUNKED + chunk * 3 + b"0\r\n\r\n" + PLAIN)
        assert [await caller.status() for _ in range(3)] == [200, 200, 200]
        assert [len(each) for each in server.bodies] == [300_000, 300_000, 0]


@on_served_loop
async def test_pipelined_requests_are_answered_in_order_up_to_a_limit() -> None:
    async with raw_server() as server:
        caller = await server.caller()
        await caller.send(b"".join(b"GET /?%d HTTP/1.1\r\n\r\n" % n for n in range(1, MOST_AHEAD)))
        for number in range(1, MOST_AHEAD):
            assert (await caller.answer())[2] == b"x" * number
        greedy = await server.caller()
        await greedy.send(PLAIN * 5000)
        await greedy.is_closed()
        assert len(server.scopes) < 3 * MOST_AHEAD


@on_served_loop
async def test_an_invalid_request_is_a_problem_and_an_upgrade_is_ignored() -> None:
    upgrade = b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    async with raw_server() as server:
        caller = await (await server.caller()).send(upgrade)
        assert await caller.status() == 200
        odd = await (await server.caller()).send(b"hello, is anybody there?\r\n\r\n")
        status, headers, _ = await odd.answer()
        assert (status, headers["content-type"]) == (400, PROBLEM)
        assert await odd.is_closed()


def parts(sent: bytes, size: int) -> list[bytes]:
    return [sent[start : start + size] for start in range(0, len(sent), size)]


def alive() -> int:
    """The number of connection objects in memory."""
    gc.collect()
    return sum(type(each) is Connection for each in gc.get_objects())
