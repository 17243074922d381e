"""Serving: the engine's life and the HTTP port's, in an order that loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from litestar import Litestar, Request, Router
from litestar.datastructures import State
from litestar.di import Provide

from duly.app import App
from duly.domain.errors import StoreUnavailable
from duly.engine.supervisor import Engine
from duly.surfaces.http import docs
from duly.surfaces.http.api import (
    audit,
    bulk,
    dead_letters,
    deliveries,
    endpoints,
    keys,
    schedules,
    streams,
    workers,
)
from duly.surfaces.http.bodies import StrictRequest, check_query
from duly.surfaces.http.door import Door, refuse_without_keys
from duly.surfaces.http.health import Pulse, health_route
from duly.surfaces.http.idempotency import AppOf, Idempotency
from duly.surfaces.http.pressure import Queue
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
            await refuse_without_keys(app)
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
        await engine.stop()
        await http.stop()


class Site(Litestar):
    """Litestar, but a path is taken apart before its parts are decoded: names may have slashes."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if b"%" in scope.get("raw_path", b""):
            scope["path"] = scope["raw_path"].decode("ascii", "replace")
        await super().__call__(scope, receive, send)


def site(app: App, pulse: Pulse) -> Litestar:
    """Everything that the port answers."""
    door = Door(app)

    def app_of(request: Request[Any, Any, Any]) -> App:
        # A function, since routers copy what they are given, and a method brings its object along.
        return door.app_of(request)

    return Site(
        route_handlers=[health_route(pulse), *docs.ROUTES, _api(pulse, app_of)],
        guards=[door.admit],
        dependencies={"duly_app": Provide(app_of, sync_to_thread=False)},
        state=State({"queue": Queue(app.settings.accept_queue)}),
        request_class=StrictRequest,
        request_max_body_size=app.settings.payload_limit + BESIDE_PAYLOAD,
        exception_handlers=HANDLERS,
        openapi_config=None,
        logging_config=None,
    )


def _api(pulse: Pulse, app_of: AppOf) -> Router:
    async def check(request: Request[Any, Any, Any]) -> None:
        if pulse.stopping:
            raise StoreUnavailable("this server is stopping; ask again in a moment")
        check_query(request)

    return Router(
        "/v1",
        route_handlers=API,
        before_request=check,
        middleware=[Idempotency(app_of, check)],
    )


RESOURCES = (
    *(deliveries, bulk, schedules, endpoints, streams, dead_letters, workers),
    *(keys, audit),
)
API: list[Any] = [route for each in RESOURCES for route in each.ROUTES]
"""The routes of /v1."""
