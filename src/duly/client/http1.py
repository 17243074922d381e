"""One HTTP/1.1 connection to a server, for one request at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

import httptools

from duly.client.problems import Reply

LONGEST_HEAD = 64 << 10
"""Bytes before, between and after the parts of a body."""
MOST_UNREAD = 1 << 20
"""Bytes of an answer that are kept for a slow reader; then the server has to wait."""


class TooLong(Exception):
    """An answer has more bytes than the caller accepts."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit >> 20} MB" if limit >= 1 << 20 else f"{limit >> 10} KB")


class Connection(asyncio.Protocol):
    """An open connection; `silence` is how many seconds may pass without a byte of an answer."""

    def __init__(self, silence: float) -> None:
        self.silence = silence
        self.loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._rested_at: float | None = None
        self.is_open = False
        self.closed = asyncio.Event()
        self._prepare()
        self._is_whole = True

    def _prepare(self) -> None:
        """Get ready for the next answer."""
        self._parser = httptools.HttpResponseParser(self)
        self._parts: deque[bytes] = deque()
        self._unread = self._besides = 0
        self._has_head = self._is_whole = self._is_framed = self._keeps_alive = False
        self.has_begun = False
        self.status = 0
        self.headers: dict[str, str] = {}

    def send(self, data: bytes) -> None:
        """Send a request; the answer is read with `reply`, or with `head` and `parts`."""
        self._prepare()
        if self.is_open:
            self._transport.write(data)

    async def reply(self, longest: int) -> Reply:
        """The whole answer; TooLong if it has more bytes, OSError if it does not come."""
        await self.head()
        body, size = list[bytes](), 0
        async for part in self.parts():
            body.append(part)
            size += len(part)
            if size > longest:
                raise TooLong(longest)
        return Reply(self.status, self.headers, b"".join(body))

    async def head(self) -> None:
        """Wait for `status` and `headers`."""
        await self._until(lambda: self._has_head)

    async def parts(self) -> AsyncIterator[bytes]:
        """The parts of the body as they arrive."""
        while True:
            await self._until(lambda: bool(self._parts) or self._is_whole)
            while self._parts:
                part = self._parts.popleft()
                self._unread -= len(part)
                yield part
            if self._is_whole:
                return

    @property
    def was_used(self) -> bool:
        """Whether this is not its first request."""
        return self._rested_at is not None

    @property
    def idle_seconds(self) -> float:
        """How long ago it was given back."""
        return self.loop.time() - (self._rested_at or 0.0)

    def rest(self) -> bool:
        """Give it back; False if it cannot be used again."""
        self._rested_at = self.loop.time()
        is_done = self.is_open and self._is_whole and self._keeps_alive
        return is_done and not self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Close it at once; data that was not sent is dropped."""
        if self.is_open:
            self.is_open = False
            self._transport.abort()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            if self._error is not None:
                raise self._error
            self._transport.resume_reading()
            unsent = self._transport.get_write_buffer_size()
            self._waiter = self.loop.create_future()
            try:
                async with asyncio.timeout(self.silence):
                    await self._waiter
            except TimeoutError:
                # While a long body is being sent, the server has nothing to answer yet.
                if self._transport.get_write_buffer_size() >= unsent:
                    raise TimeoutError("timed out") from None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self.close()
        self._wake()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: it is open."""
        self._transport = transport  # type: ignore[assignment]
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes of the answer."""
        if self._is_whole:
            self.close()  # no request is open
            return
        self.has_begun = True
        self._besides += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(OSError(f"this is not HTTP: {error}"))
        if self._besides > LONGEST_HEAD:
            self._fail(OSError("its headers are too long"))
        if self._unread > MOST_UNREAD and self.is_open:
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the server closed it, or we did."""
        self.is_open = False
        self.closed.set()
        # An answer without a length ends with its connection.
        self._is_whole = self._is_whole or (exc is None and self._has_head and not self._is_framed)
        closed = ConnectionResetError("it closed the connection")
        self._fail(exc if isinstance(exc, OSError) else closed)

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools: a header, or after the body a trailer."""
        if not self._has_head:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """httptools: the head is complete; that of an interim answer (1xx) does not count."""
        if self._has_head:
            self._keeps_alive = False  # a second answer without a request
            return
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self.headers = {}
            return
        self._has_head = True
        self._keeps_alive = self._parser.should_keep_alive()
        self._is_framed = not self.headers.keys().isdisjoint(FRAMES)

    def on_body(self, body: bytes) -> None:
        """httptools: a part of the body."""
        if not self._is_whole:
            self._besides = 0
            self._parts.append(body)
            self._unread += len(body)

    def on_message_complete(self) -> None:
        """httptools: the answer is complete."""
        self._is_whole = self._has_head


FRAMES = ("content-length", "transfer-encoding")
