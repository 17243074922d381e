"""uvicorn inside our own loop: it takes no signals, ends no process and configures no log."""

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

GOODBYE_SECONDS = 5
"""How long a stop waits for answers that are under way."""
LISTENERS = 32
"""How many callers may come in at each turn of the loop.

uvloop takes in one a turn from each listener. Under load a turn is long, and with one listener
hundreds would wait for seconds before anybody heard them, the probe of /health among them.
"""


class HttpServer:
    """One address: bound when made, so that a taken one is known at once, open after `start`.

    If processes share one, it is passed as `taken`.
    """

    def __init__(
        self,
        application: ASGIApp,
        address: tuple[str, int],
        connections: Connections,
        taken: Any = None,
    ) -> None:
        self._host, self._port = address
        self._socket = bound(*address) if taken is None else taken
        self._listeners: list[Any] = []
        self._connections = connections
        self._server = _Server(_config(application, connections))
        self._task: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The address, for people."""
        return url_of(self._host, self._socket)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port, *_ = self._socket.getsockname()
        return host, port

    async def start(self, on_end: Callable[[], None]) -> None:
        """Open the port; `on_end` is called when it closes, for whatever reason."""
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
        """Let answers that are under way end, and close the port."""
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
    """uvicorn's server, which says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.opened = asyncio.Event()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()

    async def startup(self, sockets: list[Any] | None = None) -> None:
        await super().startup(sockets)
        self.opened.set()


def _config(application: ASGIApp, connections: Connections) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        # Called as a class would be, for each connection.
        http=partial(Connection, connections),  # type: ignore[arg-type]
        interface="asgi3",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        # The socket says who the client is: a header could say anything.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GOODBYE_SECONDS,
    )
