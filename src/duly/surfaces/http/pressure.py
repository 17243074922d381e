"""How many may wait to be stored at once; whoever comes when it is full hears so at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from litestar import Request
from litestar.types import Scope, Send

from duly.domain.errors import Busy
from duly.surfaces.http.answers import send_answer
from duly.surfaces.http.problems import MEDIA_TYPE, later, problem_of

SINGLE = {"share": 1}
BULK = {"share": 8}
"""Options of a route that asks for a place: how many of its kind may have one, 1 for as many as
there are. A bulk holds as much memory as thousands of single ones.
"""
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


@contextmanager
def place_for(request: Request[Any, Any, Any]) -> Iterator[None]:
    """A place for a request, if its route asks for one; Busy when there is none.

    One with an Idempotency-Key has its place before it is noted, and asks here a second time.
    """
    share, state = request.route_handler.opt.get("share"), request.scope["state"]
    if share is None or "place" in state:
        yield
        return
    state["place"] = True
    with request.app.state.queue.place(share):
        yield
