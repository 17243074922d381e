"""Where webhooks go, in a process of its own: it notes how late they are, and has hostile paths.

`POST /due` has the moment in its body at which it was due. `POST /interim` is answered with interim
answers without end, `POST /head` with a head without end. `GET /report` tells what was noted.
"""

import asyncio
import contextlib
import json
import time

ANSWER = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" * 50
HEADER = b"x-more: %s\r\n" % (b"a" * 4096)


class Receiver:
    """Answers, and notes how late each was."""

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
            await _for_ever(writer, INTERIM)
        elif head.startswith(b"post /head"):
            writer.write(b"HTTP/1.1 200 OK\r\n")
            await _for_ever(writer, HEADER * 16)
        elif head.startswith(b"get /report"):
            told = json.dumps(self.late).encode()
            writer.write(ANSWER % (len(told), told))
        else:
            self.late.append(time.time() - json.loads(body)["due"])
            writer.write(ANSWER % (2, b"ok"))
        await writer.drain()


async def _for_ever(writer: asyncio.StreamWriter, part: bytes) -> None:
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
