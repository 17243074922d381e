"""The port of `duly listen`: it takes whatever comes and answers as it was told."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from duly.surfaces.cli.receiving.received import Inbox, Received
from duly.surfaces.cli.terminal.output import cell, talk
from duly.surfaces.process.addresses import bound, url_of
from duly.system import SystemClock

LARGEST_BODY = 2 * 1024 * 1024
"""Bytes, and twice what duly can be told to send."""
GOODBYE_SECONDS = 1.0


@asynccontextmanager
async def open_port(
    inbox: Inbox, tell: Callable[[Received], None], host: str, port: int
) -> AsyncIterator[str]:
    """Take requests while it is open; it gives its address, or CannotListen."""
    taken = bound(host, port)
    runner = _runner(inbox, tell)
    try:
        await runner.setup()
        await web.SockSite(runner, taken).start()
        yield url_of(host, taken)
    finally:
        await runner.cleanup()
        taken.close()


def _runner(inbox: Inbox, tell: Callable[[Received], None]) -> web.AppRunner:
    clock = SystemClock()

    async def take(request: web.Request) -> web.Response:
        body = await request.read()
        line = (request.method, request.path_qs)
        received = inbox.take(clock.now(), line, request.headers, body)
        tell(received)
        return web.Response(status=received.answer)

    application = web.Application(client_max_size=LARGEST_BODY)
    application.router.add_route("*", "/{path:.*}", take)
    return web.AppRunner(
        application,
        access_log=None,
        logger=_trouble(),
        # What was signed are the bytes that came, packed or not.
        auto_decompress=False,
        shutdown_timeout=GOODBYE_SECONDS,
    )


def _trouble() -> logging.Logger:
    """The server's log, for people: what is no request is worth a line and no traceback."""
    logger = logging.getLogger("duly.listen")
    logger.handlers[:], logger.propagate = [_Line()], False
    return logger


class _Line(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        talk(cell(f"{record.getMessage()}: {error!r}" if error else record.getMessage()))
