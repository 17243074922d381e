"""Everything that the port answers, put together."""

from __future__ import annotations

from typing import Any

from starlette.routing import BaseRoute, Match, Mount

from duly.app import App
from duly.surfaces.http import streams, workers
from duly.surfaces.http.access import audit, keys
from duly.surfaces.http.access.auth import Authenticator, Authorize
from duly.surfaces.http.access.cors import Cors
from duly.surfaces.http.dead_letters import routes as dead_letters
from duly.surfaces.http.deliveries import bulk
from duly.surfaces.http.deliveries import routes as deliveries
from duly.surfaces.http.endpoints import routes as endpoints
from duly.surfaces.http.monitoring import events, stats
from duly.surfaces.http.monitoring.health import Pulse, health_routes
from duly.surfaces.http.monitoring.metrics import metrics_route
from duly.surfaces.http.monitoring.sibling_metrics import Siblings
from duly.surfaces.http.openapi.docs import doc_routes, page
from duly.surfaces.http.openapi.document import describe
from duly.surfaces.http.openapi.schemas import Document
from duly.surfaces.http.protocol.backpressure import Queue
from duly.surfaces.http.protocol.request import Shared
from duly.surfaces.http.protocol.routing import OPEN, Route, below, get
from duly.surfaces.http.protocol.turns import Turns
from duly.surfaces.http.schedules import routes as schedules
from duly.surfaces.http.site import Site

BESIDE_PAYLOAD = 65_536
"""Bytes that a body may have besides a payload."""
RESOURCES = (
    *(deliveries, bulk, schedules, endpoints, streams, dead_letters, workers),
    *(stats, events, keys, audit),
)
API = below("/v1", [route for each in RESOURCES for route in each.ROUTES], is_strict=True)
"""The routes of /v1."""
ROOT = {"type": "http", "method": "GET", "path": "/", "root_path": "", "headers": []}


def site(app: App, pulse: Pulse, siblings: Siblings | None = None) -> Site:
    """Everything that the port answers; `siblings` are others at the same address."""
    door = Authenticator(app)
    own = [each for each in app.routes if isinstance(each, Route)]
    others = [_mounted(each) for each in app.routes if not isinstance(each, Route)]
    described = [*API, *own]

    def document() -> Document:
        return describe(described, needs_keys=door.needs_keys)

    beside = [
        *health_routes(pulse),
        metrics_route(app, pulse.engine, siblings),
        *doc_routes(document, with_welcome=not _answer_root(own, others)),
    ]
    return Site(
        [*beside, *described], others, door, shared_by(app, door), Cors.of(app.settings),
        pulse.refuse_if_stopping,
    )  # fmt: skip


def api(app: App, authorize: Authorize | None = None) -> Site:
    """The API and its description, to be mounted in another application; see App.asgi."""
    door = Authenticator(app, is_inside=True, authorize=authorize)

    @get("/openapi.json", scope=OPEN)
    async def document() -> Document:
        return describe(API, needs_keys=True, server="./")

    routes = [*API, document, page]
    return Site(routes, [], door, shared_by(app, door), None, lambda: None)


def shared_by(app: App, door: Authenticator) -> Shared:
    """What all requests to an app share."""
    return Shared(
        Queue(app.settings.accept_queue),
        Turns(app.clock),
        app.settings.payload_limit + BESIDE_PAYLOAD,
        door.still_admits,
    )


def _mounted(given: Any) -> BaseRoute:
    """A route of Starlette's, or any other ASGI application, at all paths that are left."""
    return given if isinstance(given, BaseRoute) else Mount("", app=given)


def _answer_root(own: list[Route], others: list[BaseRoute]) -> bool:
    """Whether an app answers `/` itself, and so keeps it."""
    return any(each.path == "/" for each in own) or any(
        each.matches(ROOT)[0] is Match.FULL for each in others
    )
