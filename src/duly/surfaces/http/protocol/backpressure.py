"""Limits on requests in progress: their number, and the size of their bodies.

A request above a limit is answered 429 at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from duly.errors import Busy
from duly.surfaces.http.protocol.problems import problem_reply
from duly.surfaces.http.protocol.responses import Reply

SINGLE, BULK = 1, 8
"""`share` of a route: how many requests of its kind may wait, 1 for as many as there are places.
A bulk request holds as much memory as thousands of single ones.
"""
ARRIVING_BYTES = 512 * 1024 * 1024
"""Limit of all incomplete bodies together."""
CALLER_BYTES = ARRIVING_BYTES // 4
"""Limit of the incomplete bodies of one caller."""
ACCEPTING = frozenset({"/v1/deliveries", "/v1/deliveries/bulk"})
"""The paths whose POST needs a place."""


class Queue:
    """Requests that wait for the store; an accepted delivery is stored and no longer waits."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting = 0

    @contextmanager
    def place(self, share: int = 1) -> Iterator[None]:
        """A place for a request, or for one that takes a share of all places; Busy if full."""
        places = self._most // share if share > 1 else 1
        if self._waiting + places > self._most:
            raise self._full()
        self._waiting += places
        try:
            yield
        finally:
            self._waiting -= places

    def refuses(self, method: str, path: str) -> bool:
        """Whether the queue is full for this request."""
        return self._waiting >= self._most and path in ACCEPTING and method == "POST"

    def refusal(self) -> Reply:
        """The answer to a request that is refused before it is read.

        It has to be cheap: refused clients try again and again.
        """
        return problem_reply({}, self._full())

    def _full(self) -> Busy:
        return Busy(f"{self._waiting} requests wait to be stored; send it again in a moment")


class Arriving:
    """Counts the bytes of bodies that are kept until they are complete."""

    def __init__(self) -> None:
        self._held: Counter[tuple[str, str]] = Counter()

    def hold(self, caller: tuple[str, str], size: int) -> None:
        """Add received bytes; raise Busy when there are too many."""
        if self._held[caller] + size > CALLER_BYTES or self._held.total() + size > ARRIVING_BYTES:
            raise Busy("other requests in progress hold too much memory; send it again in a moment")
        self._held[caller] += size

    def release(self, caller: tuple[str, str], size: int) -> None:
        """Subtract bytes."""
        self._held[caller] -= size
        if not self._held[caller]:
            del self._held[caller]
