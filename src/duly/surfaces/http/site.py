"""Serving: the engine's life and the HTTP port's, in an order that loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from litestar import Litestar, Router
from litestar.di import Provide

from duly.app import App
from duly.engine.supervisor import Engine
from duly.surfaces.http import docs
from duly.surfaces.http.api import deliveries, events, stats
from duly.surfaces.http.bodies import StrictRequest
from duly.surfaces.http.health import Pulse, health_routes
from duly.surfaces.http.metrics import metrics_route
from duly.surfaces.http.problems import HANDLERS
from duly.surfaces.http.server import HttpServer
from duly.system import listen_for_signals

BESIDE_PAYLOAD = 65_536
"""Bytes that a body may have besides a payload."""
Announce = Callable[[str], None]


async def serve_site(app: App, announce: Announce) -> None:
    """Serve until SIGTERM or SIGINT; `announce` is told the address once the port is open.

    The store is opened and migrated, what dead workers held is taken back and the workers run
    before anyone can connect.
    """
    stop = asyncio.Event()
    with listen_for_signals(stop.set):
        async with app:
            # Owned before the address is taken, so that a second server on the file hears of the
            # first rather than of its port.
            await app.store.own()
            engine = app.engine()
            pulse = Pulse(app, engine)
            http = HttpServer(site(app, pulse), app.settings.host, app.settings.port)
            await _run(engine, http, pulse, stop, announce)


async def _run(
    engine: Engine, http: HttpServer, pulse: Pulse, stop: asyncio.Event, announce: Announce
) -> None:
    await engine.start()
    try:
        await http.start(on_end=stop.set)
        announce(http.url)
        await stop.wait()
    finally:
        pulse.stopping = True
        await pulse.app.watch.live.stop()
        await engine.stop()
        await http.stop()


def site(app: App, pulse: Pulse) -> Litestar:
    """Everything that the port answers."""
    body_limit = app.settings.payload_limit + BESIDE_PAYLOAD
    return Litestar(
        route_handlers=[
            *health_routes(pulse),
            metrics_route(app, pulse.engine),
            *docs.ROUTES,
            Router("/v1", route_handlers=API),
        ],
        request_max_body_size=body_limit,
        dependencies={"duly_app": Provide(lambda: app, sync_to_thread=False)},
        request_class=StrictRequest,
        exception_handlers=HANDLERS,
        openapi_config=None,
        logging_config=None,
    )


API = [*deliveries.ROUTES, *events.ROUTES, *stats.ROUTES]
"""The routes of /v1."""
