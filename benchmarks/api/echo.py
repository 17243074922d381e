"""The limit: a route of Litestar on uvicorn that decodes what it gets and answers, nothing more."""

import asyncio
from typing import Any

import msgspec
import uvloop
from litestar import Litestar, Request, post

from duly.surfaces.http.server import HttpServer


@post("/v1/deliveries")
async def echo(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """Answer with what came."""
    return dict(msgspec.json.decode(await request.body()))


async def main() -> None:
    """Serve until killed."""
    server = HttpServer(Litestar([echo], openapi_config=None, logging_config=None), "127.0.0.1", 0)
    await server.start(on_end=lambda: None)
    print(server.url, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
