"""Limits on requests in progress: how many wait to be stored, and how much their bodies hold.

A request above a limit is answered 429 at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from litestar import Request
from litestar.types import Scope, Send

from duly.errors import Busy
from duly.surfaces.http.protocol.problems import MEDIA_TYPE, later, problem_of
from duly.surfaces.http.protocol.responses import send_answer

SINGLE = {"share": 1}
BULK = {"share": 8}
"""Options of a route that asks for a place: how many of its kind may have one, 1 for as many as
there are. A bulk holds as much memory as thousands of single ones.
"""
ARRIVING_BYTES = 512 * 1024 * 1024
"""Of all bodies in arrival that are kept until they are complete."""
CALLER_BYTES = ARRIVING_BYTES // 4
"""Of those, what one caller may hold."""
TAKING_IN = frozenset({"/v1/deliveries", "/v1/deliveries/bulk"})
"""Where a POST asks for a place."""


class Queue:
    """Those who wait for the store; what was answered with yes is stored and none of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting = 0

    @contextmanager
    def place(self, share: int = 1) -> Iterator[None]:
        """A place for one, or for one that takes up a share of all of them; Busy when full."""
        places = self._most // share if share > 1 else 1
        if self._waiting + places > self._most:
            raise self._full()
        self._waiting += places
        try:
            yield
        finally:
            self._waiting -= places

    def refuses(self, scope: Scope) -> bool:
        """Whether it is full, and would not take this request."""
        return (
            self._waiting >= self._most
            and scope.get("path") in TAKING_IN
            and scope.get("method") == "POST"
        )

    async def refuse(self, send: Send) -> None:
        """Answer so before anything is looked at: those who are refused ask again and again.

        Were it as much work as to take them in, the server would do nothing else.
        """
        problem = problem_of(self._full())
        headers = {"content-type": MEDIA_TYPE} | later(problem)
        await send_answer(send, problem.status, headers, msgspec.json.encode(problem))

    def _full(self) -> Busy:
        return Busy(f"{self._waiting} already wait to be stored; send it again in a moment")


class Arriving:
    """Counts the bytes of bodies that are kept until they are complete."""

    def __init__(self) -> None:
        self._held: Counter[tuple[str, str]] = Counter()

    def hold(self, caller: tuple[str, str], size: int) -> None:
        """Count so many more bytes; Busy when that is too much."""
        if self._held[caller] + size > CALLER_BYTES or self._held.total() + size > ARRIVING_BYTES:
            raise Busy("other requests in progress hold too much memory; send it again in a moment")
        self._held[caller] += size

    def release(self, caller: tuple[str, str], size: int) -> None:
        """Forget so many bytes."""
        self._held[caller] -= size
        if not self._held[caller]:
            del self._held[caller]


@contextmanager
def body_of(request: Request[Any, Any, Any]) -> Iterator[AsyncIterator[bytes]]:
    """The parts of a body, which count as held until the block ends; Busy when that is too much.

    With an Idempotency-Key the body is read and counted before the route asks for it.
    """
    state, arriving = request.scope["state"], request.app.state.arriving
    if "body" in state:
        yield request.stream()
        return
    state["body"] = True
    caller, held = (state["caller"].namespace, state["caller"].actor), 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal held
        async for part in request.stream():
            arriving.hold(caller, len(part))
            held += len(part)
            yield part

    try:
        yield parts()
    finally:
        arriving.release(caller, held)


@contextmanager
def place_for(request: Request[Any, Any, Any]) -> Iterator[None]:
    """A place for a request, if its route asks for one; Busy when there is none.

    Ask only after the body has arrived: a client that sends slowly must not hold a place. With an
    Idempotency-Key the place is taken before the key is noted, and the route asks a second time.
    """
    share, state = request.route_handler.opt.get("share"), request.scope["state"]
    if share is None or "place" in state:
        yield
        return
    state["place"] = True
    with request.app.state.queue.place(share):
        yield
