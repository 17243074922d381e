"""How many may wait to be stored at once; whoever comes when it is full hears so at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from litestar import Request

from duly.domain.errors import Busy

BULK_SHARE = 8
"""How many bulks may be under way: each holds as much memory as thousands of single ones."""


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
            raise Busy(f"{self._waiting} already wait to be stored; send it again in a moment")
        self._waiting += places
        try:
            yield
        finally:
            self._waiting -= places


def queue_of(request: Request[Any, Any, Any]) -> Queue:
    """The queue of the port that the request came to."""
    queue: Queue = request.app.state.queue
    return queue
