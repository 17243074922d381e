"""Everything that the port answers, put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from litestar import Litestar, Request, Router
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException

from duly.app import App
from duly.services.namespace import Namespace
from duly.surfaces.http import streams, workers
from duly.surfaces.http.access import audit, keys
from duly.surfaces.http.access.auth import Authenticator
from duly.surfaces.http.access.backpressure import Arriving, Queue
from duly.surfaces.http.access.cors import Cors
from duly.surfaces.http.access.idempotency import Idempotency
from duly.surfaces.http.dead_letters import routes as dead_letters
from duly.surfaces.http.deliveries import bulk
from duly.surfaces.http.deliveries import routes as deliveries
from duly.surfaces.http.endpoints import routes as endpoints
from duly.surfaces.http.monitoring import events, stats
from duly.surfaces.http.monitoring.health import Pulse, health_routes
from duly.surfaces.http.monitoring.metrics import metrics_route
from duly.surfaces.http.monitoring.sibling_metrics import Siblings
from duly.surfaces.http.openapi import docs
from duly.surfaces.http.protocol.decoding import StrictRequest, check_query
from duly.surfaces.http.protocol.problems import HANDLERS
from duly.surfaces.http.protocol.responses import head_only
from duly.surfaces.http.protocol.turns import Turns
from duly.surfaces.http.schedules import routes as schedules
from duly.surfaces.http.straight import Straight

BESIDE_PAYLOAD = 65_536
"""Bytes that a body may have besides a payload."""


class Site(Litestar):
    """Litestar, but a path is taken apart before its parts are decoded: names may have slashes.

    And whom a full queue would refuse does not come that far, nor does a plain delivery. HEAD is
    answered wherever GET is, with all that GET would say but its body.
    """

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        cors: Cors | None = self.state.cors
        if cors is not None:
            if cors.is_preflight(scope):
                await cors.answer_preflight(scope, send)
                return
            send = cors.sender(scope, send)
        if scope.get("method") == "HEAD":
            scope, send = {**scope, "method": "GET"}, head_only(send)
        queue: Queue = self.state.queue
        if queue.refuses(scope):
            await queue.refuse(send)
            return
        straight: Straight = self.state.straight
        if straight.takes(scope):
            await straight(scope, receive, send)
            return
        if b"%" in scope.get("raw_path", b""):
            scope["path"] = scope["raw_path"].decode("ascii", "replace")
        await super().__call__(scope, receive, send)


def site(app: App, pulse: Pulse, siblings: Siblings | None = None) -> Litestar:
    """Everything that the port answers; `siblings` are others at the same address."""
    door = Authenticator(app)

    def app_of(request: Request[Any, Any, Any]) -> Namespace:
        # A function, since routers copy what they are given, and a method brings its object along.
        return door.app_for(request.scope["state"]["caller"])

    queue = Queue(app.settings.accept_queue)
    body_limit = app.settings.payload_limit + BESIDE_PAYLOAD
    turns = Turns(app.clock)
    state = {
        "queue": queue,
        "arriving": Arriving(),
        "door": door,
        "straight": Straight(door, queue, pulse, turns, body_limit),
        "turns": turns,
        "body_limit": body_limit,
        "cors": Cors.of(app.settings),
    }
    return Site(
        route_handlers=[
            _beside(
                [*health_routes(pulse), metrics_route(app, pulse.engine, siblings)], app.routes
            ),
            _api(pulse),
            *app.routes,
        ],
        guards=[door.admit],
        dependencies={"duly_app": Provide(app_of, sync_to_thread=False)},
        state=State(state),
        request_class=StrictRequest,
        request_max_body_size=body_limit,
        exception_handlers=HANDLERS | _strays(app.routes),
        openapi_config=None,
        logging_config=None,
    )


def _beside(handlers: list[Any], own: Sequence[Any]) -> Router:
    """What is no part of the API; an app that answers `/` itself keeps it."""
    pages = docs.ROUTES if _answer_root(own) else [docs.welcome, *docs.ROUTES]
    return Router("/", route_handlers=[*handlers, *pages], include_in_schema=False)


def _answer_root(routes: Sequence[Any]) -> bool:
    return "/" in {
        path
        for each in routes
        for path in (
            [route.path for route in each.routes] if isinstance(each, Router) else each.paths
        )
    }


def _strays(routes: Sequence[Any]) -> dict[Any, Any]:
    """What tells of a request that no route answers: below an app's own path, in its own words."""
    own = {
        each.path: each.exception_handlers[HTTPException]
        for each in routes
        if isinstance(each, Router) and HTTPException in each.exception_handlers
    }

    def stray(request: Request[Any, Any, Any], error: HTTPException) -> Any:
        path = request.scope["path"]
        for place, tell in own.items():
            if f"{path}/".startswith(f"{place}/"):
                return tell(request, error)
        return HANDLERS[HTTPException](request, error)

    return {NotFoundException: stray, MethodNotAllowedException: stray}


def _api(pulse: Pulse) -> Router:
    async def check(request: Request[Any, Any, Any]) -> None:
        pulse.refuse_if_stopping()
        check_query(request)

    return Router(
        "/v1",
        route_handlers=API,
        before_request=check,
        middleware=[Idempotency(check)],
    )


RESOURCES = (
    *(deliveries, bulk, schedules, endpoints, streams, dead_letters, workers),
    *(stats, events, keys, audit),
)
API: list[Any] = [route for each in RESOURCES for route in each.ROUTES]
"""The routes of /v1."""
