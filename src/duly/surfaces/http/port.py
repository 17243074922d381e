"""The HTTP port of an app that is served: its site, at its address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from duly.app import App
from duly.engine.supervisor import Engine
from duly.surfaces.http.door import Door, refuse_without_keys
from duly.surfaces.http.health import Pulse
from duly.surfaces.http.server import HttpServer
from duly.surfaces.http.site import site


class HttpPort:
    """Opens after everything else runs, and closes last."""

    def __init__(self, app: App, engine: Engine, taken: Any = None) -> None:
        self._pulse = Pulse(app, engine)
        address = (app.settings.host, app.settings.port)
        self._site = site(app, self._pulse)
        self._server = HttpServer(self._site, *address, taken)
        self.url: str | None = self._server.url

    @classmethod
    async def of(cls, app: App, engine: Engine, taken: Any = None) -> Self:
        """The port, at its address or the one `taken` already; BadSetting if it lacks keys."""
        await refuse_without_keys(app)
        return cls(app, engine, taken)

    async def start(self, on_end: Callable[[], None]) -> None:
        """Open it; `on_end` is called when it closes, for whatever reason."""
        await self._server.start(on_end)

    async def stopping(self) -> None:
        """Refuse from now on, and say why; those who watch live are let go."""
        self._pulse.stopping = True
        door: Door = self._site.state.door
        await door.send_home()

    async def stop(self) -> None:
        """Let answers that are under way end, and close it."""
        await self._server.stop()
