"""Cheap callers: HTTP over bare sockets, one request at a time on each."""

import asyncio
import time
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from benchmarks.windows import Waited


class Caller(asyncio.Protocol):
    """One persistent connection."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        if head < 0:
            return
        begins = self._received.find(b"content-length: ", 0, head) + 16
        length = int(self._received[begins : self._received.find(b"\r\n", begins)])
        if len(self._received) < head + 4 + length:
            return
        answer = int(self._received[9:12]), bytes(self._received[head + 4 :])
        self._received.clear()
        assert self._answer is not None
        self._answer.set_result(answer)

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request; returns its status and body."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    @property
    def is_open(self) -> bool:
        """Whether the connection is open; the server closes idle ones."""
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


async def connect(url: str, count: int) -> list[Caller]:
    """Open this many callers."""
    place = urlsplit(url)
    loop = asyncio.get_running_loop()
    return [
        (await loop.create_connection(Caller, place.hostname, place.port))[1] for _ in range(count)
    ]


def post_request(path: str, document: Any, **headers: str) -> bytes:
    """The bytes of a request."""
    body = msgspec.json.encode(document)
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"{more}content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def flood(url: str, request: bytes, callers: int, seconds: float) -> float:
    """Answers a second, with each caller sending the next request at once."""
    found, answered = await connect(url, callers), 0
    begun = time.perf_counter()
    until = begun + seconds

    async def call(caller: Caller) -> None:
        nonlocal answered
        while time.perf_counter() < until:
            status, body = await caller.ask(request)
            assert status in (200, 201), (status, body)
            answered += 1

    await asyncio.gather(*(call(each) for each in found))
    took = time.perf_counter() - begun
    for each in found:
        each.close()
    return answered / took


async def trickle(url: str, request: bytes, rate: float, seconds: float) -> list[Waited]:
    """How long each request waited, when this many a second are sent at a fixed rate."""
    idle, waits, tasks = list[Caller](), list[Waited](), list[asyncio.Task[None]]()
    begun = time.perf_counter()

    async def call(requested_at: float) -> None:
        open_ones = [each for each in idle if each.is_open]
        idle[:] = open_ones[:-1]
        caller = open_ones[-1] if open_ones else (await connect(url, 1))[0]
        status, body = await caller.ask(request)
        assert status == 201, (status, body)
        waits.append((requested_at, time.perf_counter() - requested_at))
        idle.append(caller)

    for n in range(int(rate * seconds)):
        requested_at = begun + n / rate
        await asyncio.sleep(max(0.0, requested_at - time.perf_counter()))
        tasks.append(asyncio.create_task(call(requested_at)))
    await asyncio.gather(*tasks)
    for each in idle:
        each.close()
    return waits
