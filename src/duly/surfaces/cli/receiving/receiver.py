"""The HTTP server of `duly listen` and of the demo, which accepts any request."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Protocol

from aiohttp import web

from duly.surfaces.cli.receiving.received import Received
from duly.surfaces.cli.terminal.output import cell, print_message
from duly.surfaces.process.addresses import bound, url_of
from duly.system import SystemClock

LARGEST_BODY = 2 * 1024 * 1024
"""Bytes: twice the largest payload that duly can be configured to send."""
GOODBYE_SECONDS = 1.0


class Receiving(Protocol):
    """Records requests, and decides how each is answered."""

    def take(
        self, at: datetime, line: tuple[str, str], headers: Mapping[str, str], body: bytes
    ) -> Received:
        """Record a request; `line` is its method and path."""


def at_once(_received: Received) -> float:
    """Answer without a pause."""
    return 0.0


@asynccontextmanager
async def open_port(
    inbox: Receiving,
    on_received: Callable[[Received], None],
    host: str,
    port: int,
    pause: Callable[[Received], float] = at_once,
) -> AsyncIterator[str]:
    """Receive requests while the block runs; it yields the URL. CannotListen if it is in use.

    `pause` is how many seconds a request waits for its answer.
    """
    listener = bound(host, port)
    runner = _runner(inbox, on_received, pause)
    try:
        await runner.setup()
        await web.SockSite(runner, listener).start()
        yield url_of(host, listener)
    finally:
        await runner.cleanup()
        listener.close()


def _runner(
    inbox: Receiving,
    on_received: Callable[[Received], None],
    pause: Callable[[Received], float],
) -> web.AppRunner:
    clock = SystemClock()

    async def take(request: web.Request) -> web.Response:
        body = await request.read()
        line = (request.method, request.path_qs)
        received = inbox.take(clock.now(), line, request.headers, body)
        on_received(received)
        if seconds := pause(received):
            await clock.sleep(seconds)
        return web.Response(status=received.answer)

    application = web.Application(client_max_size=LARGEST_BODY)
    application.router.add_route("*", "/{path:.*}", take)
    return web.AppRunner(
        application,
        access_log=None,
        logger=_logger(),
        # The signature is of the bytes as received, compressed or not.
        auto_decompress=False,
        shutdown_timeout=GOODBYE_SECONDS,
    )


def _logger() -> logging.Logger:
    """The server's log as single lines: an invalid request needs no traceback."""
    logger = logging.getLogger("duly.listen")
    logger.handlers[:], logger.propagate = [_Line()], False
    return logger


class _Line(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        print_message(cell(f"{record.getMessage()}: {error!r}" if error else record.getMessage()))
