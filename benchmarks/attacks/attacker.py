"""The attacks, each in its own process: `python -m benchmarks.attacks.attacker NAME URL SINK`.

An attack continues until its process is ended, and ignores the responses.
"""

import asyncio
import contextlib
import json
import resource
import sys
from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import urlsplit

MEGABYTE = 1_048_576
SLOW_BULKS, KEYED_BODIES = 20, 500
HALF_REQUESTS, EVENT_CLIENTS, HOSTILE_WEBHOOKS = 1300, 1000, 50
HOST = b"host: 127.0.0.1\r\n"
MEMBERS = json.dumps({"target": "log", "payload": {f"field{n}": n for n in range(400)}}).encode()
JSON, LINES = b"application/json", b"application/x-ndjson"
Parts = Iterator[bytes]


class Attack:
    """One attack on the server at `url`; `sink` is a receiver with hostile paths."""

    def __init__(self, url: str, sink: str) -> None:
        self._place = urlsplit(url)
        self._sink = sink

    async def send(self, parts: Parts) -> None:
        """Send a request on its own connection, and read until it is closed."""
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(self._place.hostname, self._place.port)
            reading = asyncio.create_task(_read(reader))
            try:
                for part in parts:
                    writer.write(part)
                    await writer.drain()
                await reading
            finally:
                reading.cancel()
                writer.close()

    async def repeat(self, made: Callable[[], Parts]) -> None:
        """Send the same request repeatedly."""
        while True:
            await self.send(made())
            await asyncio.sleep(0.1)

    async def many(self, count: int, parts: Callable[[], Parts]) -> None:
        """Send this many at once, each of which keeps its connection."""
        await asyncio.gather(*(self.send(parts()) for _ in range(count)))

    async def huge_headers(self) -> None:
        """128 MB of headers."""
        part = b"x: %s\r\n" % (b"a" * 8000) * 16
        await self.repeat(lambda: _head(b"/health", part, 128 * MEGABYTE))

    async def many_headers(self) -> None:
        """Ten million small headers."""
        await self.repeat(lambda: _head(b"/health", b"a: b\r\n" * 10_000, 60 * MEGABYTE))

    async def request_line(self) -> None:
        """An endless request line."""
        await self.repeat(lambda: _repeated(b"GET /", b"a" * 65_536, 128 * MEGABYTE))

    async def half_heads(self) -> None:
        """1,300 heads that are never finished."""
        await self.many(HALF_REQUESTS, lambda: iter([b"GET /health HTTP/1.1\r\nhost: 127."]))

    async def half_bodies(self) -> None:
        """1,300 bodies that are never finished."""
        head = _posted(b"/v1/deliveries", JSON, 1000)
        await self.many(HALF_REQUESTS, lambda: iter([head + b'{"target": ']))

    async def slow_bulks(self) -> None:
        """20 bulks that send 520 bytes a second, and 500 half bodies with an Idempotency-Key."""
        key = b"\r\nidempotency-key: a key of many %d\r\n\r\n"
        head = _posted(b"/v1/deliveries", JSON, 1000).removesuffix(b"\r\n\r\n")
        keyed = (iter([head + key % n + b'{"target": ']) for n in range(KEYED_BODIES))
        async with asyncio.TaskGroup() as group:
            for _ in range(SLOW_BULKS):
                group.create_task(self._trickle())
            group.create_task(self.many(KEYED_BODIES, lambda: next(keyed)))

    async def _trickle(self) -> None:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(self._place.hostname, self._place.port)
            writer.write(_posted(b"/v1/deliveries/bulk", JSON, 64 * MEGABYTE) + b"[")
            while not writer.is_closing():
                writer.write(b" " * 520)
                await writer.drain()
                await asyncio.sleep(1)

    async def bulk_item(self) -> None:
        """A bulk of one item with 19 million objects."""
        await self.repeat(
            lambda: _bulk(JSON, b'[{"target": "log", "payload": [', b"{}," * 10_000, 1900)
        )

    async def bulk_lines(self) -> None:
        """A bulk of 30 million lines."""
        await self.repeat(lambda: _bulk(LINES, b"", b"1\n" * 10_000, 3000))

    async def bulk_real(self) -> None:
        """A bulk of 10,000 deliveries with 400 members each, for later."""
        item = MEMBERS[:-1] + b', "after": 36000},'
        await self.repeat(lambda: _bulk(JSON, b"[", item * 10, 1000, item[:-1] + b"]", 9999))

    async def interim_answers(self) -> None:
        """Receivers that answer 100 and 103 endlessly."""
        await self._webhooks("/interim")

    async def endless_answer(self) -> None:
        """Receivers whose answer's head does not end."""
        await self._webhooks("/head")

    async def _webhooks(self, path: str) -> None:
        body = json.dumps({"target": {"url": self._sink + path}, "payload": 1}).encode()
        request = _posted(b"/v1/deliveries", JSON, len(body)) + body
        await self.many(HOSTILE_WEBHOOKS, lambda: iter([request]))

    async def event_clients(self) -> None:
        """1,000 clients of live events."""
        request = b"GET /v1/events HTTP/1.1\r\n" + HOST + b"\r\n"
        await self.many(EVENT_CLIENTS, lambda: iter([request]))


ATTACKS: dict[str, Callable[[Attack], Awaitable[None]]] = {
    "huge-headers": Attack.huge_headers,
    "many-headers": Attack.many_headers,
    "request-line": Attack.request_line,
    "half-heads": Attack.half_heads,
    "half-bodies": Attack.half_bodies,
    "slow-bulks": Attack.slow_bulks,
    "bulk-item": Attack.bulk_item,
    "bulk-lines": Attack.bulk_lines,
    "bulk-real": Attack.bulk_real,
    "interim-answers": Attack.interim_answers,
    "endless-answer": Attack.endless_answer,
    "event-clients": Attack.event_clients,
}


async def _read(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(65_536):
            """Ignore it."""


def _repeated(first: bytes, part: bytes, size: int) -> Parts:
    yield first
    for _ in range(size // len(part)):
        yield part


def _head(path: bytes, part: bytes, size: int) -> Parts:
    return _repeated(b"GET %s HTTP/1.1\r\n%s" % (path, HOST), part, size)


def _posted(path: bytes, kind: bytes, length: int) -> bytes:
    return (
        b"POST %s HTTP/1.1\r\n%scontent-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        % (*(path, HOST, kind, length),)
    )


def _bulk(
    kind: bytes, first: bytes, part: bytes, count: int, last: bytes = b"", items: int = 0
) -> Parts:
    if items:
        # As many parts as needed for the items, which end with `last`.
        one = part[: len(part) // 10]
        body = [first, *[part] * (items // 10), one * (items % 10), last]
    else:
        body = [first, *[part] * count, last]
    yield _posted(b"/v1/deliveries/bulk", kind, sum(map(len, body)))
    yield from body


async def main(name: str, url: str, sink: str) -> None:
    """Attack until this process is ended."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    await ATTACKS[name](Attack(url, sink))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
