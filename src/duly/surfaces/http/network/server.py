"""uvicorn in our event loop, without its signal handlers, process exit and log configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import uvicorn

from duly.surfaces.http.network.connection import Connection
from duly.surfaces.http.network.connections import Connections
from duly.surfaces.http.protocol.responses import ASGIApp
from duly.surfaces.process.addresses import CannotListen, bound, url_of

STOP_SECONDS = 5
LISTENERS = 32
"""How many connections may be accepted at each turn of the event loop.

uvloop accepts one per turn from each listener. Under load a turn is long, and with one listener
hundreds of clients would wait for seconds, the probe of /health among them.
"""


class HttpServer:
    """Listens on one address: bound at once, so that an address in use is reported early.

    If processes share an address, its socket is passed as `listener`. A stop waits `goodbye`
    seconds for running requests.
    """

    def __init__(
        self,
        application: ASGIApp,
        address: tuple[str, int],
        connections: Connections,
        listener: Any = None,
        *,
        goodbye: int = STOP_SECONDS,
    ) -> None:
        self._host, self._port = address
        self._socket = bound(*address) if listener is None else listener
        self._listeners: list[Any] = []
        self._connections = connections
        self._server = _Server(_config(application, connections, goodbye))
        self._task: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The URL of the server."""
        return url_of(self._host, self._socket)

    @property
    def address(self) -> tuple[str, int]:
        """The host and port it listens on."""
        host, port, *_ = self._socket.getsockname()
        return host, port

    async def start(self, on_end: Callable[[], None]) -> None:
        """Open the port; `on_end` is called when it closes, for any reason."""
        self._listeners = [self._socket.dup() for _ in range(LISTENERS)]
        self._task = asyncio.create_task(self._server.serve(sockets=self._listeners), name="http")
        self._task.add_done_callback(lambda _: on_end())
        self._watching = asyncio.create_task(self._connections.watch(), name="http connections")
        opened = asyncio.create_task(self._server.opened.wait())
        await asyncio.wait((self._task, opened), return_when=asyncio.FIRST_COMPLETED)
        opened.cancel()
        if self._task.done():
            task, self._task = self._task, None
            self._end(task)

    async def stop(self) -> None:
        """Let running requests end, and close the port."""
        if self._task is not None:
            self._server.should_exit = True
            await self._task
        if self._watching is not None:
            self._watching.cancel()
        for each in (self._socket, *self._listeners):
            each.close()

    def _end(self, task: asyncio.Task[None]) -> None:
        try:
            task.result()
        except OSError as error:
            raise CannotListen(self._host, self._port, error) from error


class _Server(uvicorn.Server):
    """uvicorn's server, with an event that is set when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.opened = asyncio.Event()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()

    async def startup(self, sockets: list[Any] | None = None) -> None:
        await super().startup(sockets)
        self.opened.set()


def _config(application: ASGIApp, connections: Connections, goodbye: int) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        # Called for each connection.
        http=partial(Connection, connections),  # type: ignore[arg-type]
        interface="asgi3",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        # The client's address is taken from the socket: a header could contain anything.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=goodbye,
    )
