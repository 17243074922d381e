"""The HTTP server of an app that is served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

from duly.app import App
from duly.engine.supervisor import Engine
from duly.surfaces.http.access.auth import refuse_without_keys
from duly.surfaces.http.application import site
from duly.surfaces.http.monitoring.health import ProcessHealth
from duly.surfaces.http.monitoring.metrics import ProcessMetrics
from duly.surfaces.http.monitoring.shared_metrics import SharedMetrics
from duly.surfaces.http.network.connections import Connections
from duly.surfaces.http.network.server import HttpServer
from duly.surfaces.process.descriptors import descriptor_limit, room_for_clients
from duly.surfaces.process.shared_memory import Slot

PUBLISH_SECONDS = 1.0


class HttpPort:
    """Opens after everything else has started, and closes last."""

    def __init__(self, app: App, engine: Engine, listener: Any, page: Slot | None) -> None:
        self._app = app
        self._health = ProcessHealth(app, engine)
        self._shared_metrics = None if page is None else SharedMetrics(page)
        address = (app.settings.host, app.settings.port)
        self._site = site(app, self._health, self._shared_metrics)
        connections = Connections(app.clock, room_for_clients(app.settings, descriptor_limit()))
        self._server = HttpServer(self._site, address, connections, listener)
        app.webhooks.refuse_own(*self._server.address)
        self._publishing: asyncio.Task[None] | None = None
        self.url: str | None = self._server.url

    @classmethod
    async def of(
        cls, app: App, engine: Engine, listener: Any = None, page: Slot | None = None
    ) -> Self:
        """A port on the socket `listener` or the address of the settings; BadSetting without keys.

        Each of several processes at one address has a `page`.
        """
        await refuse_without_keys(app)
        return cls(app, engine, listener, page)

    async def start(self, on_end: Callable[[], None]) -> None:
        """Open it; `on_end` is called when it closes, for any reason."""
        await self._server.start(on_end)
        if self._shared_metrics is not None:
            self._publishing = asyncio.create_task(self._publish(self._shared_metrics))

    async def _publish(self, shared_metrics: SharedMetrics) -> None:
        """Publish this process's metrics for the others: each of them answers for all."""
        process_metrics = ProcessMetrics(self._app, self._health.engine)
        while True:
            shared_metrics.publish(process_metrics.families())
            await self._app.clock.sleep(PUBLISH_SECONDS)

    async def stopping(self) -> None:
        """Refuse requests from now on, and end those that wait, and live event streams."""
        self._health.stopping = True
        self._app.parts.ends.release()
        await self._site.authenticator.end_live_streams()

    async def stop(self) -> None:
        """Let running requests end, and close it."""
        if self._publishing is not None:
            self._publishing.cancel()
        await self._server.stop()
