"""`/v1/events`: live counts as server-sent events."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from duly.records.stats import Second
from duly.services.monitoring.live import Live
from duly.services.namespace import Namespace
from duly.surfaces.http.protocol.hangups import while_connected
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.responses import Receive, Scope, Send
from duly.surfaces.http.protocol.routing import get

MEDIA_TYPE = "text/event-stream"
RECONNECT_MILLISECONDS = 2000
HEADERS = [
    (b"cache-control", b"no-store"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
    (b"content-type", f"{MEDIA_TYPE}; charset=utf-8".encode()),
]


class Stream:
    """An answer that continues while its caller listens and has a valid key."""

    def __init__(self, live: Live, request: Request, last_heard: int | None) -> None:
        self._live = live
        self._request = request
        # Before the stream begins: after that the status is already sent.
        self._listener = live.join(last_heard)

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; the listener is removed however it ends."""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            with suppress(asyncio.CancelledError):
                await while_connected(receive, self._send_all(send))
        finally:
            self._live.leave(self._listener)

    async def _send_all(self, send: Send) -> None:
        request = self._request
        async for second in self._listener:
            if not await request.shared.still_admits(request.scope):
                break  # its key was revoked or has expired
            event = _event(second)
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@get(
    "/events",
    media=MEDIA_TYPE,
    operation_id="watch_events",
    headers=("Last-Event-ID",),
    answer=Second,
)
async def events(app: Namespace, request: Request) -> Stream:
    """One event a second: the status, and the counts of all workers since the previous event.

    With `Last-Event-ID`, missed events of the last five minutes come first.
    """
    return Stream(app.stats.live, request, _second(request.header(b"last-event-id")))


def _event(second: Second) -> bytes:
    data = msgspec.json.encode(second)
    head = b"id: %d\r\nevent: second\r\ndata: " % second.id
    return head + data + b"\r\nretry: %d\r\n\r\n" % RECONNECT_MILLISECONDS


def _second(last_event_id: str | None) -> int | None:
    """The id of the last event that was received; any other text is ignored."""
    given = last_event_id or ""
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 19 else None


ROUTES = [events]
