"""The HTTP port of an app that is served: its site, at its address."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

from duly.app import App
from duly.engine.supervisor import Engine
from duly.surfaces.http.access.auth import refuse_without_keys
from duly.surfaces.http.application import site
from duly.surfaces.http.monitoring.health import Pulse
from duly.surfaces.http.monitoring.metrics import Figures
from duly.surfaces.http.monitoring.sibling_metrics import Siblings
from duly.surfaces.http.network.connections import Connections
from duly.surfaces.http.network.server import HttpServer
from duly.surfaces.process.descriptors import descriptor_limit, room_for_clients
from duly.surfaces.process.shared_memory import Slot

TELL_SECONDS = 1.0


class HttpPort:
    """Opens after everything else runs, and closes last."""

    def __init__(self, app: App, engine: Engine, taken: Any, page: Slot | None) -> None:
        self._app = app
        self._pulse = Pulse(app, engine)
        self._siblings = None if page is None else Siblings(page)
        address = (app.settings.host, app.settings.port)
        self._site = site(app, self._pulse, self._siblings)
        connections = Connections(app.clock, room_for_clients(app.settings, descriptor_limit()))
        self._server = HttpServer(self._site, address, connections, taken)
        app.webhooks.refuse_own(*self._server.address)
        self._telling: asyncio.Task[None] | None = None
        self.url: str | None = self._server.url

    @classmethod
    async def of(
        cls, app: App, engine: Engine, taken: Any = None, page: Slot | None = None
    ) -> Self:
        """The port, at its address or the one `taken` already; BadSetting if it lacks keys.

        Of several at one address each has a `page`.
        """
        await refuse_without_keys(app)
        return cls(app, engine, taken, page)

    async def start(self, on_end: Callable[[], None]) -> None:
        """Open it; `on_end` is called when it closes, for whatever reason."""
        await self._server.start(on_end)
        if self._siblings is not None:
            self._telling = asyncio.create_task(self._tell(self._siblings))

    async def _tell(self, siblings: Siblings) -> None:
        """Let the others know how this one stands: whichever is asked tells of all."""
        figures = Figures(self._app, self._pulse.engine)
        while True:
            siblings.tell(figures.families())
            await self._app.clock.sleep(TELL_SECONDS)

    async def stopping(self) -> None:
        """Refuse from now on, and say why; those who watch live are let go."""
        self._pulse.stopping = True
        await self._site.door.send_home()

    async def stop(self) -> None:
        """Let answers that are under way end, and close it."""
        if self._telling is not None:
            self._telling.cancel()
        await self._server.stop()
