"""`/v1/events`: what happens, second by second, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any, cast

import msgspec
from litestar import Request, Response, get
from litestar.params import HeaderParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage
from litestar.types import ASGIApp, Receive, Scope, Send

from duly.services.monitoring.live import Listener, Second
from duly.surfaces.http.access.auth import Authenticator
from duly.surfaces.http.protocol.request_context import Served

AGAIN_MILLISECONDS = 2000


def leaving(app: ASGIApp) -> ASGIApp:
    """Give a listener's place back however its request ends, also before its stream began."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        finally:
            if "leave" in scope["state"]:
                scope["state"]["leave"]()

    return called


@get(
    "/events",
    media_type="text/event-stream",
    operation_id="watch_events",
    middleware=[leaving],
)
async def events(
    request: Request[Any, Any, Any],
    duly_app: Served,
    last_event_id: Annotated[str | None, HeaderParameter(name="Last-Event-ID")] = None,
) -> Response[Second]:
    """One event a second: what all workers did since the one before, and how it stands.

    With `Last-Event-ID` those of the last five minutes that were missed come first.
    """
    live = duly_app.watch.live
    # Here, and not once the stream has begun: then the answer is 200 already.
    listener = live.join(_second(last_event_id))
    request.scope["state"]["leave"] = partial(live.leave, listener)
    told = _told(listener, request)
    stream = ServerSentEvent(told, headers={"cache-control": "no-store"})
    return cast("Response[Any]", stream)


async def _told(
    listener: Listener, request: Request[Any, Any, Any]
) -> AsyncIterator[ServerSentEventMessage]:
    door: Authenticator = request.app.state.door
    async for second in listener:
        if not await door.still_admits(request):
            return  # its key was revoked, or is over
        yield ServerSentEventMessage(
            event="second",
            id=second.id,
            data=msgspec.json.encode(second).decode(),
            retry=AGAIN_MILLISECONDS,
        )


def _second(last_event_id: str | None) -> int | None:
    """The event that was heard last; what was never one of ours is passed over."""
    given = last_event_id or ""
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 19 else None


ROUTES = [events]
