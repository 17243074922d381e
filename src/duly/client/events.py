"""The events of a server, one a second; it reconnects if the connection is lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from duly.client.http1 import Connection
from duly.client.pool import Unanswered
from duly.client.problems import read
from duly.client.requester import Requester
from duly.errors import Busy, StoreUnavailable
from duly.ports import Clock
from duly.records.stats import Second

RECONNECT_SECONDS = 2.0
LONGEST_GAP_SECONDS = 60.0
"""Without an event, although there is one every second: the server or its store is down."""
LONGEST_SILENCE_SECONDS = 10.0
"""Then the connection counts as lost."""
LONGEST_EVENT = 1 << 20


class Events:
    """The event stream of one server."""

    def __init__(self, requester: Requester, clock: Clock) -> None:
        self._requester = requester
        self._clock = clock

    async def listen(self, after: int | None = None) -> AsyncGenerator[Second, None]:
        """Every second from now on; with `after`, first those since that id that the server keeps.

        After a lost connection it reconnects, and missed seconds follow. StoreUnavailable if there
        was none for LONGEST_GAP_SECONDS, or if the first connection fails.
        """
        last, heard_at = after, self._clock.monotonic()
        has_begun = False
        while True:
            try:
                async for second in self._once(last):
                    last, heard_at, has_begun = second.id, self._clock.monotonic(), True
                    yield second
            except (StoreUnavailable, Busy) as error:
                gap = self._clock.monotonic() - heard_at
                is_lost = has_begun or isinstance(error, (Unanswered, Busy))
                if not is_lost or gap > LONGEST_GAP_SECONDS:
                    raise
            await self._clock.sleep(RECONNECT_SECONDS)

    async def _once(self, after: int | None) -> AsyncIterator[Second]:
        """The events of one connection."""
        headers = {} if after is None else {"last_event_id": str(after)}
        async with self._requester.streaming("events", **headers) as connection:
            connection.silence = LONGEST_SILENCE_SECONDS
            async for event in _events(connection):
                if data := event.get(b"data"):
                    yield read(self._requester.server, data, Second)


async def _events(connection: Connection) -> AsyncIterator[dict[bytes, bytes]]:
    """Server-sent events: each is some lines `name: value`, and an empty one."""
    unread = b""
    async for part in connection.parts():
        *whole, unread = (unread + part).replace(b"\r\n", b"\n").split(b"\n\n")
        for event in whole:
            lines = (line.partition(b":") for line in event.split(b"\n"))
            yield {name: value.removeprefix(b" ") for name, _, value in lines}
        if len(unread) > LONGEST_EVENT:
            raise StoreUnavailable("an event of the server is too long; is it a duly server?")
