"""More connections than the limit: the server closes some for new ones and loses no answer."""

import asyncio
import logging
import resource
import socket
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack

import pytest

from duly.settings import Settings
from duly.surfaces.http.network.connections import ROOM_SHARE
from duly.surfaces.process.descriptors import own, raised_limit, room_for_clients
from tests.http.raw import Caller, RawServer, on_served_loop, raw_server

pytestmark = pytest.mark.requirement("X1")

MOST = 20
PLAIN = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
PROBE = PLAIN.replace(b"/ ", b"/health ")
HELD = PLAIN.replace(b"/ ", b"/held ")
HALVES = {
    "silent": b"",
    "head": b"GET / HTTP/1.1\r\nhost: loc",
    "body": b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{",
}


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES)
@on_served_loop
async def test_half_requests_are_closed_and_running_requests_are_kept(
    half: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw_server(MOST) as server:
        held = [await (await server.caller()).send(HELD) for _ in range(5)]
        idle = await (await server.caller()).send(PLAIN)
        assert await idle.status() == 200
        for _ in range(3 * MOST):
            await crowd(server, half, 1)
            assert len(server.connections._open) <= MOST
        await server.pass_time(2)
        for _ in range(MOST):
            assert await (await (await server.caller()).send(PLAIN)).status() == 200
        server.go_on.set()
        assert [await each.status() for each in held] == [200] * 5
        await server.pass_time(11)
    told = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(told) == 2
    assert all("to make room" in each and "raise http_connections" in each for each in told)


@on_served_loop
async def test_unfinished_heads_are_closed_first_then_idle_connections_then_bodies() -> None:
    async with raw_server(MOST) as server:
        body = await (await server.caller()).send(HALVES["body"])
        idle = await (await server.caller()).send(PLAIN)
        assert await idle.status() == 200
        await server.pass_time(1)
        heads = await crowd(server, HALVES["head"], MOST - 3)
        await server.pass_time(3)
        # A new connection gets time to finish.
        young = await (await server.caller()).send(HALVES["head"])
        await crowd(server, HELD, len(heads))
        assert [await each.is_closed() for each in heads] == [True] * len(heads)
        assert all(each.is_open() for each in (idle, body, young))
        await crowd(server, HELD, 1)
        assert await idle.is_closed()
        assert all(each.is_open() for each in (body, young))
        await crowd(server, HELD, 1)
        assert await body.is_closed()
        await young.send(b"alhost\r\n\r\n")
        assert await young.status() == 200


@on_served_loop
async def test_when_all_connections_are_busy_one_more_is_answered_503() -> None:
    async with raw_server(MOST) as server:
        held = await crowd(server, HELD, MOST)
        for _ in range(3):
            status, headers, _ = await (await server.caller()).answer()
            assert (status, headers["retry-after"]) == (503, "1")
        await server.turns()
        assert len(server.connections._open) == MOST
        server.go_on.set()
        assert [await each.status() for each in held] == [200] * MOST
        await server.pass_time(1)
        assert await (await (await server.caller()).send(PLAIN)).status() == 200


@on_served_loop
async def test_a_health_probe_is_answered_before_most_earlier_requests() -> None:
    async with raw_server() as server:
        with ExitStack() as stack:
            before = [burst_in(server, PLAIN, stack) for _ in range(320)]
            probe = burst_in(server, PROBE, stack)
            assert await status_of(probe) == b"200"
            paths = [scope["path"] for scope in server.scopes]
            assert 0 < paths.index("/health") < 160
            assert await asyncio.gather(*map(status_of, before)) == [b"200"] * 320


@on_served_loop
async def test_waiting_requests_are_answered_503_to_make_room() -> None:
    async with raw_server(10 * MOST) as server:
        with ExitStack() as stack:
            crowd = [burst_in(server, HELD, stack) for _ in range(10 * MOST)]
            await server.turns()
            assert 0 < len(server.scopes) < 5 * MOST, "some are running, the others wait"
            probe = burst_in(server, PROBE, stack)
            assert await status_of(probe) == b"200"
            server.go_on.set()
            told = Counter(await asyncio.gather(*map(status_of, crowd)))
            assert told == {b"200": len(server.scopes) - 1, b"503": 10 * MOST // ROOM_SHARE}


@pytest.mark.parametrize(
    ("limit", "wanted", "expected"),
    [
        (1_000_000, 2000, 2000),
        (1_000_000, 10, 10),
        (1024, 2000, 1024 - own(Settings())),
        (1024, 10, 10),
        (256, 2000, 64),
    ],
)
def test_enough_descriptors_are_left_for_the_process_itself(
    limit: int, wanted: int, expected: int
) -> None:
    assert room_for_clients(Settings(http_connections=wanted), limit) == expected


def test_the_limit_of_open_files_is_raised_to_what_is_needed_and_never_lowered() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = min(soft, 512)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (low - 100, hard))
        assert raised_limit(low - 50) == low - 50
        assert raised_limit(10) == low - 50
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_descriptor_table_is_allocated_at_the_start() -> None:
    """The kernel reports its size, and never shrinks it."""
    wanted = own(Settings()) + Settings().http_connections
    code = (
        "from duly.settings import Settings; from duly.surfaces.process.descriptors import *\n"
        "ensure_descriptors(Settings())\n"
        "print(open('/proc/self/status').read().split('FDSize:')[1].split()[0])"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(made.stdout) >= min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1])


async def crowd(server: RawServer, sent: bytes, many: int) -> list[Caller]:
    """Open so many connections; the server has received the bytes of each."""
    callers = []
    for _ in range(many):
        callers.append(await (await server.caller()).send(sent))
        await server.turns()
    return callers


def burst_in(server: RawServer, sent: bytes, stack: ExitStack) -> socket.socket:
    """Open a connection and send bytes before the server's event loop runs again."""
    calling = stack.enter_context(socket.create_connection(server.server.address))
    calling.sendall(sent)
    calling.setblocking(False)
    return calling


async def status_of(calling: socket.socket) -> bytes:
    """The status of the answer; empty if the connection was closed."""
    try:
        answer = await asyncio.get_running_loop().sock_recv(calling, 4096)
    except ConnectionResetError:
        return b""
    return answer.split(b" ")[1]
