"""The receiver of the webhooks: a minimal HTTP server in its own process.

`/late` gets a time as its body and records how long ago it was, `/hang` never answers, and any
other path is only counted. Commands are read from stdin and answered on stdout, a line each.
"""

import asyncio
import json
import socket
import sys
from time import time
from typing import Any

import uvloop

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
LENGTH = b"content-length: "


class Seen:
    """When requests arrived, how late those of `/late` were, and how many hang."""

    def __init__(self) -> None:
        self.arrivals: list[float] = []
        self.late: list[tuple[float, float]] = []
        self.hanging = 0

    def report(self) -> dict[str, Any]:
        """Everything since the last report."""
        report = {"arrivals": self.arrivals, "late": self.late, "hanging": self.hanging}
        self.arrivals, self.late, self.hanging = [], [], 0
        return report


class Connection(asyncio.Protocol):
    """One kept connection; requests come one after the other, each with its length."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._rest = b""
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """Keep the transport for answers."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer if the request is complete; clients here do not pipeline."""
        data = self._rest + data if self._rest else data
        head = data.find(b"\r\n\r\n")
        if head < 0 or len(data) < head + 4 + _length(data, head):
            self._rest = data
            return
        self._rest = b""
        self._take(data, head)

    def _take(self, data: bytes, head: int) -> None:
        seen, now = self._seen, time()
        if data.startswith(b"POST /hang"):
            seen.hanging += 1
            return
        if data.startswith(b"POST /late"):
            requested_at = float(data[head + 4 :])
            seen.late.append((requested_at, now - requested_at))
        seen.arrivals.append(now)
        self._transport.write(ANSWER)


def _length(data: bytes, head: int) -> int:
    at = data.lower().find(LENGTH, 0, head)
    return 0 if at < 0 else int(data[at + len(LENGTH) : data.find(b"\r", at)])


async def main() -> None:
    """Serve until stdin ends."""
    seen, loop = Seen(), asyncio.get_running_loop()
    listening = socket.create_server(("0.0.0.0", 0), backlog=1024)
    await loop.create_server(lambda: Connection(seen), sock=listening)
    print(listening.getsockname()[1], flush=True)
    while command := (await asyncio.to_thread(sys.stdin.readline)).strip():
        report = len(seen.arrivals) if command == "count" else seen.report()
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    uvloop.install()
    asyncio.run(main())
