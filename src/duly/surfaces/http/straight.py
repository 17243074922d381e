"""The straight way of the hottest request: a plain `POST /v1/deliveries`.

Litestar's way to a route and back costs twice as much as taking a delivery in. So what most
callers send is taken in here, by the same door, struct and face as in `api/deliveries.py`; whatever
has something unusual about it goes the long way.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import msgspec
from litestar import Request
from litestar.types import HTTPScope, Receive, Send

from duly.domain.access.keys import Scope
from duly.domain.documents import LARGE
from duly.surfaces.http.access.auth import Authenticator
from duly.surfaces.http.access.backpressure import Queue
from duly.surfaces.http.deliveries.bodies import NewDelivery
from duly.surfaces.http.deliveries.routes import answer_to, location_of, status_of, take_in
from duly.surfaces.http.monitoring.health import Pulse
from duly.surfaces.http.protocol.decoding import decoded, decoded_in_slices
from duly.surfaces.http.protocol.problems import MEDIA_TYPE, problem_answer
from duly.surfaces.http.protocol.responses import send_answer
from duly.surfaces.http.protocol.turns import Turns

PATH = b"/v1/deliveries"
JSON = b"application/json"
HOST = re.compile(rb"[A-Za-z0-9.-]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?")
DIGITS = 9
DETOURS = frozenset((b"idempotency-key", b"transfer-encoding", b"content-encoding"))
"""Headers that ask for more than this way can do."""
encode = msgspec.json.Encoder().encode


class Straight:
    """Takes plain deliveries in."""

    def __init__(
        self, door: Authenticator, queue: Queue, pulse: Pulse, turns: Turns, body_limit: int
    ) -> None:
        self._door = door
        self._queue = queue
        self._pulse = pulse
        self._turns = turns
        self._body_limit = body_limit

    def takes(self, scope: Any) -> bool:
        """Whether there is nothing unusual about it."""
        # The path as it was sent: an escaped one is another.
        return (
            scope.get("raw_path") == PATH
            and scope.get("method") == "POST"
            and not scope["query_string"]
            and self._is_plain(scope["headers"])
        )

    def _is_plain(self, given: Collection[tuple[bytes, bytes]]) -> bool:
        headers = dict(given)
        length = headers.get(b"content-length", b"")
        return (
            len(headers) == len(given)
            and headers.get(b"content-type") == JSON
            and DETOURS.isdisjoint(headers)
            and HOST.fullmatch(headers.get(b"host", b"")) is not None
            and length.isdigit()
            and len(length) <= DIGITS
            and 0 < int(length) <= self._body_limit
        )

    async def __call__(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Take it in, or tell what is wrong with it."""
        try:
            caller = await self._door.enter(scope, Scope.OPERATE)
            self._pulse.refuse_if_stopping()
            body = await _body(receive)
            if body is None:
                return
            new: NewDelivery = (
                decoded(body, NewDelivery)
                if len(body) <= LARGE
                else await decoded_in_slices(body, NewDelivery, self._turns)
            )
            app = self._door.app_for(caller)
            with self._queue.place():
                accepted = await take_in(app, new)
            answer = await answer_to(app, accepted)
        except Exception as error:
            told = problem_answer(Request(scope, receive, send), error)
            headers = {"content-type": MEDIA_TYPE} | dict(told.headers)
            await send_answer(send, told.status_code or 500, headers, encode(told.content))
            return
        headers = {"content-type": JSON.decode(), "location": location_of(accepted)}
        await send_answer(send, status_of(accepted), headers, encode(answer))


async def _body(receive: Receive) -> bytes | None:
    """All of it; None when the caller hung up before."""
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return body
