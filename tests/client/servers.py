"""Servers between and instead of duly's: one that follows a script, and a proxy that loses answers.

Both run in the test's own event loop and count connections.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


@dataclass
class Heard:
    """What a server has seen so far."""

    url: str = ""
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    """All that were ever made."""
    open: int = 0
    most: int = 0
    """Open at the same time."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, request: bytes) -> None:
        self.requests.append(request)
        self._news.set()

    async def wait_for(self, count: int) -> None:
        """Wait until that many requests have come."""
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
    """One answer after the other, the last for ever; None is to hang up without one."""
    left = list(answers)

    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> bool:
        data = left.pop(0) if len(left) > 1 else left[0]
        if data is not None:
            writer.write(data)
            await writer.drain()
        return data is not None

    return answer


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[Heard]:
    """A server that reads requests and answers them with the function."""
    heard = Heard()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.connections += 1
        heard.open += 1
        heard.most = max(heard.most, heard.open)
        try:
            while request := await _request(reader):
                heard.add(request)
                if not await answer(request, writer):
                    break
        finally:
            heard.open -= 1
            writer.close()

    async with _listening(serve) as heard.url:
        yield heard


@asynccontextmanager
async def losing(url: str, lost: Callable[[int], bool]) -> AsyncIterator[Heard]:
    """A proxy that passes requests on to a real server, and drops the answers to some of them."""
    host, _, port = url.removeprefix("http://").partition(":")

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> bool:
        number = len(heard.requests)
        upstream, out = await asyncio.open_connection(host, int(port))
        out.write(request)
        reply = await _request(upstream)
        out.close()
        if lost(number):
            return False
        writer.write(reply)
        await writer.drain()
        return True

    async with answering(answer) as heard:
        yield heard


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
    """A request or an answer with its body; empty when the other side closed."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        found = LENGTH.search(head)
        return head + await reader.readexactly(int(found[1]) if found else 0)
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
