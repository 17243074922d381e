"""Builds the HTTP applications from all routes."""

from __future__ import annotations

from typing import Any

from starlette.routing import BaseRoute, Match, Mount

from duly.app import App
from duly.surfaces.http import batches, limits, recovery, streams, workers
from duly.surfaces.http.access import audit, keys, session
from duly.surfaces.http.access.auth import Authenticator, Authorize
from duly.surfaces.http.access.cors import Cors
from duly.surfaces.http.dashboard import dashboard_routes, mounted_dashboard
from duly.surfaces.http.dead_letters import routes as dead_letters
from duly.surfaces.http.deliveries import bulk
from duly.surfaces.http.deliveries import routes as deliveries
from duly.surfaces.http.endpoints import routes as endpoints
from duly.surfaces.http.monitoring import events, stats
from duly.surfaces.http.monitoring.health import ProcessHealth, health_routes
from duly.surfaces.http.monitoring.metrics import metrics_route
from duly.surfaces.http.monitoring.shared_metrics import SharedMetrics
from duly.surfaces.http.openapi.docs import doc_routes, page, welcome_route
from duly.surfaces.http.openapi.document import describe
from duly.surfaces.http.openapi.schemas import Document
from duly.surfaces.http.protocol.backpressure import Queue
from duly.surfaces.http.protocol.request import Shared
from duly.surfaces.http.protocol.routing import OPEN, Route, below, get
from duly.surfaces.http.protocol.turns import Turns
from duly.surfaces.http.schedules import calendars, orphans
from duly.surfaces.http.schedules import routes as schedules
from duly.surfaces.http.site import Site
from duly.surfaces.mcp.extra import require_extra

BESIDE_PAYLOAD = 65_536
"""Bytes that a body may have besides a payload."""
RESOURCES = (
    *(deliveries, bulk, schedules, orphans, calendars, endpoints, limits, streams, batches),
    *(dead_letters, recovery, workers, stats, events, keys, audit, session),
)
API = below("/v1", [route for each in RESOURCES for route in each.ROUTES], is_strict=True)
"""The routes of /v1."""
ROOT = {"type": "http", "method": "GET", "path": "/", "root_path": "", "headers": []}


def site(app: App, health: ProcessHealth, shared_metrics: SharedMetrics | None = None) -> Site:
    """The application of a server; `shared_metrics`: other processes at the same address."""
    authenticator = Authenticator(app)
    own = [each for each in app.routes if isinstance(each, Route)]
    others = [_mounted(each) for each in app.routes if not isinstance(each, Route)]
    described = [*API, *own]

    def document() -> Document:
        return describe(described, needs_keys=authenticator.needs_keys)

    beside = [
        *health_routes(health),
        metrics_route(app, health.engine, shared_metrics),
        *doc_routes(document, None if _has_root(own, others) else welcome_route(own)),
        *dashboard_routes(),
        *_mcp_routes(app),
    ]
    return Site(
        [*beside, *described], others, authenticator, shared_by(app, authenticator),
        Cors.of(app.settings), health.refuse_if_stopping,
    )  # fmt: skip


def api(app: App, authorize: Authorize | None = None, *, dashboard: bool = False) -> Site:
    """The API and its documentation, to be mounted in another application; see App.asgi."""
    authenticator = Authenticator(app, is_inside=True, authorize=authorize)

    @get("/openapi.json", scope=OPEN)
    async def document() -> Document:
        return describe(API, needs_keys=True, server="./")

    pages = mounted_dashboard() if dashboard else []
    routes = [*API, document, page, *pages]
    return Site(routes, [], authenticator, shared_by(app, authenticator), None, lambda: None)


def shared_by(app: App, authenticator: Authenticator) -> Shared:
    """What all requests to an app share."""
    return Shared(
        Queue(app.settings.accept_queue),
        Turns(app.clock),
        app.settings.payload_limit + BESIDE_PAYLOAD,
        authenticator.still_admits,
    )


def _mcp_routes(app: App) -> list[Route]:
    if not app.settings.mcp:
        return []
    require_extra()
    # Imported here: an optional dependency.
    from duly.surfaces.http.mcp import MCP

    return [MCP]


def _mounted(given: Any) -> BaseRoute:
    """A Starlette route, or any other ASGI application at all remaining paths."""
    return given if isinstance(given, BaseRoute) else Mount("", app=given)


def _has_root(own: list[Route], others: list[BaseRoute]) -> bool:
    return any(each.path == "/" for each in own) or any(
        each.matches(ROOT)[0] is Match.FULL for each in others
    )
