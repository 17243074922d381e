"""The limit: the same server software, which only decodes and answers."""

import asyncio
from typing import Any

import msgspec
import uvloop

from duly.surfaces.http.network.connections import Connections
from duly.surfaces.http.network.server import HttpServer
from duly.surfaces.http.protocol.responses import send_answer
from duly.system import SystemClock

JSON = {"content-type": "application/json"}


async def echo(_scope: Any, receive: Any, send: Any) -> None:
    """Answer with the request's body."""
    body = (await receive())["body"]
    await send_answer(send, 201, JSON, msgspec.json.encode(msgspec.json.decode(body)))


async def main() -> None:
    """Serve until killed."""
    server = HttpServer(echo, ("127.0.0.1", 0), Connections(SystemClock(), 5000))
    await server.start(on_end=lambda: None)
    print(server.url, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
