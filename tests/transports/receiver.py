"""Servers that receive webhooks in a test: normal ones, and hostile ones that send raw bytes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Taken(msgspec.Struct, frozen=True):
    """A received request."""

    line: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Receives requests and answers with what `talk` writes."""

    def __init__(self, talk: Talk | None = None, *, lasts: bool = False) -> None:
        self.taken: list[Taken] = []
        self.names: list[str] = []
        """The names of the headers of the last request, as they were sent."""
        self.connections = 0
        self.port = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self.secure: ssl.SSLContext | None = None
        self._talk = talk
        self._lasts = lasts

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            while True:
                self.taken.append(await self._read(reader))
                await (self._talk or says(answer(204)))(reader, writer)
                await writer.drain()
                if not self._lasts:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Taken:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = [each.partition(":") for each in head[1:] if each]
        self.names = [name for name, _, _ in fields]
        headers = {name.lower(): value.strip() for name, _, value in fields}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Taken(head[0], headers, body)

    def url(self, path: str = "/hook") -> str:
        """Its URL with that path."""
        return f"http://127.0.0.1:{self.port}{path}"


@asynccontextmanager
async def receiver(
    talk: Talk | None = None, certificate: Path | None = None, *, lasts: bool = False
) -> AsyncIterator[Receiver]:
    """Start a receiver on a free port; one that lasts takes many requests on a connection."""
    made = Receiver(talk, lasts=lasts)
    if certificate is not None:
        made.secure = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        made.secure.load_cert_chain(certificate)
    server = await asyncio.start_server(made.take, "127.0.0.1", 0, ssl=made.secure)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)


def answer(status: int, body: bytes = b"", *headers: str) -> bytes:
    """A complete answer, after which the connection is closed."""
    return lasting(status, body, "Connection: close", *headers)


def lasting(status: int, body: bytes = b"", *headers: str) -> bytes:
    """A complete answer, after which the connection can be used again."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + body


def says(*parts: bytes) -> Talk:
    """A server that sends these bytes and closes the connection."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)

    return talk


def drips(first: bytes, drop: bytes) -> Talk:
    """A server that sends the first bytes, and then a few more from time to time without end."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while True:
            writer.write(drop)
            await writer.drain()
            await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.1)

    return talk


def pours(first: bytes) -> Talk:
    """A server that sends without end, as fast as the client reads."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    return talk
