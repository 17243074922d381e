"""Callers that cost little: HTTP over bare sockets, one request at a time on each."""

import asyncio
import time
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from benchmarks.windows import Waited


class Caller(asyncio.Protocol):
    """One connection that is kept."""

    def __init__(self) -> None:
        self._heard = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the server hung up"))

    def data_received(self, data: bytes) -> None:
        self._heard += data
        head = self._heard.find(b"\r\n\r\n")
        if head < 0:
            return
        begins = self._heard.find(b"content-length: ", 0, head) + 16
        length = int(self._heard[begins : self._heard.find(b"\r\n", begins)])
        if len(self._heard) < head + 4 + length:
            return
        answer = int(self._heard[9:12]), bytes(self._heard[head + 4 :])
        self._heard.clear()
        assert self._answer is not None
        self._answer.set_result(answer)

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request; its status and body."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    @property
    def is_open(self) -> bool:
        """Whether the server still listens; it hangs up on those who are silent for long."""
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


async def connected(url: str, count: int) -> list[Caller]:
    """So many callers."""
    place = urlsplit(url)
    loop = asyncio.get_running_loop()
    return [
        (await loop.create_connection(Caller, place.hostname, place.port))[1] for _ in range(count)
    ]


def posted(path: str, document: Any, **headers: str) -> bytes:
    """A request as it is sent."""
    body = msgspec.json.encode(document)
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"{more}content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def flood(url: str, request: bytes, callers: int, seconds: float) -> float:
    """Answers a second, each caller asking again as soon as it is answered."""
    found, answered = await connected(url, callers), 0
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
    """How long each waited when so many a second are asked, whether answered or not."""
    idle, waits, tasks = list[Caller](), list[Waited](), list[asyncio.Task[None]]()
    begun = time.perf_counter()

    async def call(asked: float) -> None:
        open_ones = [each for each in idle if each.is_open]
        idle[:] = open_ones[:-1]
        caller = open_ones[-1] if open_ones else (await connected(url, 1))[0]
        status, body = await caller.ask(request)
        assert status == 201, (status, body)
        waits.append((asked, time.perf_counter() - asked))
        idle.append(caller)

    for n in range(int(rate * seconds)):
        asked = begun + n / rate
        await asyncio.sleep(max(0.0, asked - time.perf_counter()))
        tasks.append(asyncio.create_task(call(asked)))
    await asyncio.gather(*tasks)
    for each in idle:
        each.close()
    return waits
