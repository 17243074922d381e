"""The HTTP server of `duly listen` and of the demo: any path, any method, any payload."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from duly.surfaces.cli.receiving.received import Received
from duly.surfaces.cli.terminal.output import cell, print_message
from duly.surfaces.http.network.connections import Connections
from duly.surfaces.http.network.server import HttpServer
from duly.surfaces.http.protocol.responses import ASGIApp, Receive, Scope, Send
from duly.system import SystemClock

LARGEST_BODY = 2 * 1024 * 1024
"""Bytes: twice the largest payload that duly can be configured to send."""
CLIENTS = 1000
GOODBYE_SECONDS = 1


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
    _log_lines()
    clock = SystemClock()
    taking = _taking(inbox, on_received, pause, clock)
    server = HttpServer(taking, (host, port), Connections(clock, CLIENTS), goodbye=GOODBYE_SECONDS)
    await server.start(lambda: None)
    try:
        yield server.url
    finally:
        await server.stop()


def _taking(
    inbox: Receiving,
    on_received: Callable[[Received], None],
    pause: Callable[[Received], float],
    clock: SystemClock,
) -> ASGIApp:
    async def take(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            body = await _body(request)
        except ClientDisconnect:
            return
        if body is None:
            await Response(status_code=413)(scope, receive, send)
            return
        path = scope["raw_path"] + (b"?" if scope["query_string"] else b"") + scope["query_string"]
        line = (request.method, path.decode("utf-8", "surrogateescape"))
        received = inbox.take(clock.now(), line, _headers(request), body)
        on_received(received)
        if seconds := pause(received):
            await clock.sleep(seconds)
        await Response(status_code=received.answer)(scope, receive, send)

    return take


async def _body(request: Request) -> bytes | None:
    """The bytes as they were received, which are signed, compressed or not; None if too many."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_BODY:
            return None
    return bytes(body)


def _headers(request: Request) -> dict[str, str]:
    """The headers by their names in lower case; bytes that are not UTF-8 stay visible."""
    return {
        name.decode("latin-1"): value.decode("utf-8", "surrogateescape")
        for name, value in request.headers.raw
    }


def _log_lines() -> None:
    """Print the server's log as single lines."""
    logger = logging.getLogger("duly.http")
    logger.handlers[:], logger.propagate = [_Line()], False


class _Line(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print_message(cell(record.getMessage()))
