"""The HTTP server with an application that records its requests, and clients that send bytes."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, Self

import uvloop

from duly.surfaces.http.network.connections import Connections
from duly.surfaces.http.network.server import HttpServer
from duly.testing import VirtualClock

DEADLINE_SECONDS = 20
PLENTY = 1000
PROBLEM = "application/problem+json"


def on_served_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run the test on the event loop of `duly serve`."""

    @wraps(test)
    def run(**given: Any) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(test(**given))

    return run


class RawServer:
    """A server whose clock is moved by the test."""

    def __init__(self, most: int = PLENTY) -> None:
        self.clock = VirtualClock()
        self.connections = Connections(self.clock, most)
        self.server = HttpServer(self.application, ("127.0.0.1", 0), self.connections)
        self.scopes: list[Any] = []
        self.bodies: list[bytes] = []
        self.unread = asyncio.Event()
        """Set when a request to /unread is being handled."""
        self.go_on = asyncio.Event()
        """Requests to /held and /unread wait for this event."""
        self.meanwhile: Callable[[Any], Awaitable[None]] | None = None
        """Called with `receive` by requests to /held before they wait."""

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        if scope["path"] in ("/unread", "/held"):
            self.unread.set()
            if self.meanwhile is not None:
                await self.meanwhile(receive)
            await self.go_on.wait()
        body = b""
        while scope["path"] != "/early" and (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                self.bodies.append(body)
                break
        size = int(scope["query_string"] or 2)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * size})

    async def caller(self) -> "Caller":
        port = int(self.server.url.rpartition(":")[2])
        # Small buffers, so that a client that does not read is detected soon.
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
        return Caller(reader, writer)

    async def pass_time(self, seconds: float) -> None:
        """Move the clock in steps, and let the sweep run after each."""
        for _ in range(int(seconds)):
            await self.turns()
            self.clock.advance(1)
        await self.turns()

    async def turns(self) -> None:
        """Let sent bytes arrive, and let the sweep run."""
        for _ in range(20):
            await asyncio.sleep(0)


class Caller:
    """One connection of a client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, *parts: bytes) -> Self:
        """Send the parts one after the other, with time for each to arrive."""
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            for _ in range(5):
                await asyncio.sleep(0)
        return self

    async def status(self) -> int:
        """Read the next answer; returns its status."""
        return (await self.answer())[0]

    async def answer(self) -> tuple[int, dict[str, str], Any]:
        """Read the next answer, by its length or in chunks."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = b""
        if "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
        else:
            while size := int(await self.reader.readline(), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readline()
        is_problem = headers.get("content-type") == PROBLEM
        return int(head[0].split()[1]), headers, json.loads(body) if is_problem else body

    async def is_closed(self) -> bool:
        """Wait until the connection is closed; whether no bytes came before."""
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True

    def is_open(self) -> bool:
        """Whether the connection is still open."""
        return not self.reader.at_eof() and self.reader.exception() is None


@asynccontextmanager
async def raw_server(most: int = PLENTY) -> AsyncIterator[RawServer]:
    """Start a server; its connections are closed at the end."""
    found = RawServer(most)
    callers: list[Caller] = []
    call = found.caller

    async def remembered() -> Caller:
        callers.append(await call())
        return callers[-1]

    found.caller = remembered  # type: ignore[method-assign]
    await found.server.start(on_end=lambda: None)
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            yield found
    finally:
        found.go_on.set()
        for each in callers:
            each.writer.transport.abort()
        await found.server.stop()
