"""More connections than the port keeps: it makes room for new ones and loses no answer."""

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
from tests.http.raw import Caller, Stand, on_served_loop, standing

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
async def test_half_requests_make_room_and_answers_under_way_are_kept(
    half: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with standing(MOST) as stand:
        held = [await (await stand.caller()).send(HELD) for _ in range(5)]
        idle = await (await stand.caller()).send(PLAIN)
        assert await idle.status() == 200
        for _ in range(3 * MOST):
            await crowd(stand, half, 1)
            assert len(stand.connections._open) <= MOST
        await stand.pass_time(2)
        for _ in range(MOST):
            assert await (await (await stand.caller()).send(PLAIN)).status() == 200
        stand.go_on.set()
        assert [await each.status() for each in held] == [200] * 5
        await stand.pass_time(11)
    told = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(told) == 2
    assert all("to make room" in each and "raise http_connections" in each for each in told)


@on_served_loop
async def test_unfinished_heads_go_first_then_idle_connections_then_bodies() -> None:
    async with standing(MOST) as stand:
        body = await (await stand.caller()).send(HALVES["body"])
        idle = await (await stand.caller()).send(PLAIN)
        assert await idle.status() == 200
        await stand.pass_time(1)
        heads = await crowd(stand, HALVES["head"], MOST - 3)
        await stand.pass_time(3)
        # One that has only just come is given the time to finish.
        young = await (await stand.caller()).send(HALVES["head"])
        await crowd(stand, HELD, len(heads))
        assert [await each.is_closed() for each in heads] == [True] * len(heads)
        assert all(each.is_open() for each in (idle, body, young))
        await crowd(stand, HELD, 1)
        assert await idle.is_closed()
        assert all(each.is_open() for each in (body, young))
        await crowd(stand, HELD, 1)
        assert await body.is_closed()
        await young.send(b"alhost\r\n\r\n")
        assert await young.status() == 200


@on_served_loop
async def test_when_all_are_being_answered_one_more_is_told_to_come_later() -> None:
    async with standing(MOST) as stand:
        held = await crowd(stand, HELD, MOST)
        for _ in range(3):
            status, headers, _ = await (await stand.caller()).answer()
            assert (status, headers["retry-after"]) == (503, "1")
        await stand.turns()
        assert len(stand.connections._open) == MOST
        stand.go_on.set()
        assert [await each.status() for each in held] == [200] * MOST
        await stand.pass_time(1)
        assert await (await (await stand.caller()).send(PLAIN)).status() == 200


@on_served_loop
async def test_a_probe_is_answered_before_most_of_those_that_connected_before_it() -> None:
    async with standing() as stand:
        with ExitStack() as stack:
            before = [burst_in(stand, PLAIN, stack) for _ in range(320)]
            probe = burst_in(stand, PROBE, stack)
            assert await heard(probe) == b"200"
            paths = [scope["path"] for scope in stand.scopes]
            assert 0 < paths.index("/health") < 160
            assert await asyncio.gather(*map(heard, before)) == [b"200"] * 320


@on_served_loop
async def test_what_waits_for_its_turn_makes_room_and_is_told_to_come_later() -> None:
    async with standing(10 * MOST) as stand:
        with ExitStack() as stack:
            crowd = [burst_in(stand, HELD, stack) for _ in range(10 * MOST)]
            await stand.turns()
            assert 0 < len(stand.scopes) < 5 * MOST, "some are begun, the others wait"
            probe = burst_in(stand, PROBE, stack)
            assert await heard(probe) == b"200"
            stand.go_on.set()
            told = Counter(await asyncio.gather(*map(heard, crowd)))
            assert told == {b"200": len(stand.scopes) - 1, b"503": 10 * MOST // ROOM_SHARE}


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
def test_enough_descriptors_are_left_for_our_own_work(
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


def test_the_table_of_descriptors_is_made_at_the_start() -> None:
    """The kernel says how large it is, and never makes it smaller."""
    wanted = own(Settings()) + Settings().http_connections
    code = (
        "from duly.settings import Settings; from duly.surfaces.process.descriptors import *\n"
        "ensure_descriptors(Settings())\n"
        "print(open('/proc/self/status').read().split('FDSize:')[1].split()[0])"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(made.stdout) >= min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1])


async def crowd(stand: Stand, said: bytes, many: int) -> list[Caller]:
    """So many new connections, each of which the server has heard."""
    callers = []
    for _ in range(many):
        callers.append(await (await stand.caller()).send(said))
        await stand.turns()
    return callers


def burst_in(stand: Stand, said: bytes, stack: ExitStack) -> socket.socket:
    """A connection that has said something before the server's loop has another turn."""
    calling = stack.enter_context(socket.create_connection(stand.server.address))
    calling.sendall(said)
    calling.setblocking(False)
    return calling


async def heard(calling: socket.socket) -> bytes:
    """The status that it was answered with; nothing if it was cut off."""
    try:
        answer = await asyncio.get_running_loop().sock_recv(calling, 4096)
    except ConnectionResetError:
        return b""
    return answer.split(b" ")[1]
