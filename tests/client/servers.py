"""Test servers: one with scripted answers, and a proxy that loses answers.

Both run in the test's own event loop and count connections.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


@dataclass
class Received:
    """What a server has received so far."""

    url: str = ""
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    """The number of all connections."""
    open: int = 0
    most: int = 0
    """The highest number of open connections."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, request: bytes) -> None:
        self.requests.append(request)
        self._news.set()

    async def wait_for(self, count: int) -> None:
        """Wait until that many requests have arrived."""
        while len(self.requests) < count:
            self._news.clear()
            await self._news.wait()


Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[bool]]
"""Answers a request; False closes the connection."""


def json(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        *headers,
        "content-type: application/json",
        f"content-length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def script(*answers: bytes | None) -> Answer:
    """The answers in order, then the last again and again; None closes the connection."""
    left = list(answers)

    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> bool:
        data = left.pop(0) if len(left) > 1 else left[0]
        if data is not None:
            writer.write(data)
            await writer.drain()
        return data is not None

    return answer


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[Received]:
    """A server that reads requests and answers them with the function."""
    received = Received()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.connections += 1
        received.open += 1
        received.most = max(received.most, received.open)
        try:
            while request := await _request(reader):
                received.add(request)
                if not await answer(request, writer):
                    break
        finally:
            received.open -= 1
            writer.close()

    async with _listening(serve) as received.url:
        yield received


@asynccontextmanager
async def losing(url: str, lost: Callable[[int], bool]) -> AsyncIterator[Received]:
    """A proxy to a real server that drops some of its answers."""
    host, _, port = url.removeprefix("http://").partition(":")

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> bool:
        number = len(received.requests)
        upstream, out = await asyncio.open_connection(host, int(port))
        out.write(request)
        reply = await _request(upstream)
        out.close()
        if lost(number):
            return False
        writer.write(reply)
        await writer.drain()
        return True

    async with answering(answer) as received:
        yield received


@asynccontextmanager
async def _listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    tasks: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def run() -> None:
            with suppress(OSError):
                await serve(reader, writer)

        task = asyncio.ensure_future(run())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _request(reader: asyncio.StreamReader) -> bytes:
    """A request or an answer with its body; empty if the other side closed the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        found = LENGTH.search(head)
        return head + await reader.readexactly(int(found[1]) if found else 0)
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
