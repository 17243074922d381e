"""One connection to an origin, for one request at a time."""

from __future__ import annotations

import asyncio
from typing import cast

from duly.transports.webhooks.answers import AnswerParser, AnswerRefused, Heard

STALE_SECONDS = 1.0
"""If a kept connection is closed later than that after a request was sent, the peer may have worked
on it: then it was an attempt."""
MOST_EARLY = 64 * 1024


class Stale(ConnectionError):
    """A kept connection was closed as a request was sent, without an answer; use a new one."""


class Connection(asyncio.Protocol):
    """An open connection; after a whole answer it can be kept for the next request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parser = AnswerParser()
        self._transport: asyncio.Transport
        self._waiter: asyncio.Future[None] | None = None
        self._has_answered = self._has_begun = False
        self._early = b""
        """What arrived before the first request: a peer may refuse whoever connects."""
        self._sent_at = 0.0
        self._lost: Exception | None = None
        self.is_open = False
        self.rested_at = 0.0
        """The time of the event loop when its last answer was complete."""

    async def exchange(self, request: bytes, heard: Heard) -> bool:
        """Send a request and wait for its answer; returns whether the connection can be kept.

        What was received is in `heard` even if this ends with an error or a cancellation.
        """
        self._parser.expect(heard)
        self._has_begun, self._sent_at = False, self._loop.time()
        waiter = self._waiter = self._loop.create_future()
        if self.is_open:
            self._transport.write(request)
        if self._early:
            early, self._early = self._early, b""
            self.data_received(early)
        if not self.is_open:
            self.connection_lost(self._lost)
        try:
            await waiter
        except BaseException:
            self.close()
            raise
        finally:
            self._waiter = None
        # An answer that came before the whole request was sent leaves a rest of it unsent.
        if self.is_open and self._parser.can_last and not self._transport.get_write_buffer_size():
            self._has_answered, self.rested_at = True, self._loop.time()
            return True
        self.close()
        return False

    def close(self) -> None:
        """Close it at once: a TLS peer could delay a polite end."""
        if self.is_open:
            self.is_open = False
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: it is open."""
        self._transport, self.is_open = cast(asyncio.Transport, transport), True

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes of the answer."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            self._take_unasked(data)
            return
        self._has_begun = True
        try:
            self._parser.take(data)
        except AnswerRefused as error:
            self.close()
            waiter.set_exception(error)
            return
        if self._parser.is_whole:
            if not self._parser.can_last:
                self.close()
            waiter.set_result(None)

    def _take_unasked(self, data: bytes) -> None:
        self._early += data
        if self._has_answered or self._waiter is not None or len(self._early) > MOST_EARLY:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the peer closed it, or we did."""
        self.is_open, self._lost = False, exc
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        is_at_once = self._loop.time() - self._sent_at < STALE_SECONDS
        if self._has_answered and not self._has_begun and is_at_once:
            waiter.set_exception(Stale("the kept connection was closed"))
        elif exc is None and self._parser.end():
            waiter.set_result(None)
        else:
            waiter.set_exception(exc or ConnectionResetError("closed without an answer"))
