"""A webhook receiver in its own process: it records lateness, and has hostile paths.

`POST /due` has its due time in the body. `POST /interim` is answered with endless interim
responses, `POST /head` with an endless head. `GET /report` returns the recorded lateness.
"""

import asyncio
import contextlib
import json
import time

ANSWER = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" * 50
HEADER = b"x-more: %s\r\n" % (b"a" * 4096)


class Receiver:
    """Answers, and records how late each webhook was."""

    def __init__(self) -> None:
        self.late: list[float] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._answer(reader, writer)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        body = await reader.readexactly(length)
        if head.startswith(b"post /interim"):
            await _write_forever(writer, INTERIM)
        elif head.startswith(b"post /head"):
            writer.write(b"HTTP/1.1 200 OK\r\n")
            await _write_forever(writer, HEADER * 16)
        elif head.startswith(b"get /report"):
            report = json.dumps(self.late).encode()
            writer.write(ANSWER % (len(report), report))
        else:
            self.late.append(time.time() - json.loads(body)["due"])
            writer.write(ANSWER % (2, b"ok"))
        await writer.drain()


async def _write_forever(writer: asyncio.StreamWriter, part: bytes) -> None:
    while True:
        writer.write(part)
        await writer.drain()


async def main() -> None:
    """Serve until this process is ended."""
    served = await asyncio.start_server(Receiver(), "127.0.0.1", 0)
    host, port = served.sockets[0].getsockname()
    print(f"http://{host}:{port}", flush=True)
    await served.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
