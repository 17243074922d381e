"""Limits on requests in progress: how many wait to be stored, and how much their bodies hold.

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
"""`share` of a route that asks for a place: how many of its kind may have one, 1 for as many as
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

    def refuses(self, method: str, path: str) -> bool:
        """Whether it is full, and would not take this request."""
        return self._waiting >= self._most and path in TAKING_IN and method == "POST"

    def refusal(self) -> Reply:
        """The answer before anything is looked at: those who are refused ask again and again.

        Were it as much work as to take them in, the server would do nothing else.
        """
        return problem_reply({}, self._full())

    def _full(self) -> Busy:
        return Busy(f"{self._waiting} already wait to be stored; send it again in a moment")


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
