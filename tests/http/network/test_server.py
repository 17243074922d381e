"""The HTTP server accepts connections soon, however many come at once."""

import asyncio
import os
import select
import socket

import pytest
import uvloop

from duly.surfaces.http.network.connections import Connections
from duly.surfaces.http.network.server import HttpServer
from duly.surfaces.http.protocol.responses import Receive, Scope, Send, send_answer
from duly.surfaces.process.addresses import bound
from duly.system import SystemClock

CALLERS = 100


async def health(scope: Scope, receive: Receive, send: Send) -> None:
    await send_answer(send, 200, {"content-type": "text/plain"}, b"ok")


@pytest.mark.requirement("S2")
def test_many_connections_at_once_are_accepted_within_a_few_turns_of_the_loop() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(turns_until_all_are_accepted()) < CALLERS / 4


@pytest.mark.requirement("D14")
def test_a_shared_address_never_blocks_a_process() -> None:
    # A process that loses the race for a connection would block its event loop until the next.
    with bound("127.0.0.1", 0) as taken, taken.dup() as copy:
        assert not os.get_blocking(taken.fileno())
        assert not os.get_blocking(copy.fileno())


async def turns_until_all_are_accepted() -> int:
    connections = Connections(SystemClock(), 2 * CALLERS)
    server = HttpServer(health, ("127.0.0.1", 0), connections)
    await server.start(on_end=lambda: None)
    port = int(server.url.rpartition(":")[2])
    callers = [socket.create_connection(("127.0.0.1", port)) for _ in range(CALLERS)]
    for each in callers:
        each.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
    turns = 0
    while len(select.select(callers, [], [], 0)[0]) < CALLERS:
        turns += 1
        await asyncio.sleep(0)
    for each in callers:
        each.close()
    await server.stop()
    return turns
