"""The request of a route, and the objects that all requests of a server share."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.exceptions import HTTPException

from duly.domain.access.keys import StoredKey
from duly.errors import InvalidInput
from duly.records.key import Scope as KeyScope
from duly.surfaces.http.protocol.backpressure import Arriving, Queue
from duly.surfaces.http.protocol.responses import Receive, Scope
from duly.surfaces.http.protocol.routing import Route
from duly.surfaces.http.protocol.turns import Turns

CALLER = "duly.caller"
"""The key of the caller in the ASGI scope."""


class Caller(msgspec.Struct, frozen=True):
    """An authenticated caller."""

    actor: str
    namespace: str
    scope: KeyScope
    key: StoredKey | None = None


class Shared(msgspec.Struct, frozen=True):
    """Objects that all requests of a server share."""

    queue: Queue
    turns: Turns
    body_limit: int
    still_admits: Callable[[Scope], Awaitable[bool]]
    arriving: Arriving = msgspec.field(default_factory=Arriving)


class HungUp(Exception):
    """The client disconnected before the body was complete; there is no answer."""


class Request:
    """A request for a route."""

    __slots__ = (
        *("scope", "receive", "path", "route", "values", "shared"),
        *("caller", "seed", "_headers", "_is_counted", "_has_place"),
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        path: str,
        route: Route,
        values: list[str],
        shared: Shared,
    ) -> None:
        self.scope = scope
        self.receive = receive
        self.path = path
        """As received, with names still escaped: they may contain slashes."""
        self.route = route
        self.values = values
        self.shared = shared
        self.caller: Caller | None = None
        self.seed: str | None = None
        """The id of what the request creates, the same if it is repeated.

        None without an Idempotency-Key: each request then creates something new.
        """
        self._headers: dict[bytes, bytes] | None = None
        self._is_counted = self._has_place = False

    @property
    def headers(self) -> dict[bytes, bytes]:
        """The headers by their names in lower case."""
        if self._headers is None:
            self._headers = dict(self.scope["headers"])
        return self._headers

    def header(self, name: bytes) -> str | None:
        """A header as text, if there is one."""
        found = self.headers.get(name)
        return None if found is None else found.decode("latin-1")

    @property
    def media_type(self) -> str:
        """The media type of its body."""
        return (self.header(b"content-type") or "").partition(";")[0].strip().lower()

    async def stream(self) -> AsyncIterator[bytes]:
        """The parts of the body as they arrive; 413 if it is too large."""
        limit, so_far, is_last = self._limit(), 0, False
        while not is_last:
            part, is_last = await self._part()
            so_far += len(part)
            if so_far > limit:
                raise _too_large()
            if part:
                yield part

    async def body(self) -> bytes:
        """The whole body."""
        limit = self._limit()
        part, is_last = await self._part()
        parts, size = [part], len(part)
        while not is_last and size <= limit:
            part, is_last = await self._part()
            parts.append(part)
            size += len(part)
        if size > limit:
            raise _too_large()
        return b"".join(parts)

    async def _part(self) -> tuple[bytes, bool]:
        """The next part of the body, and whether it is the last."""
        message = await self.receive()
        if message["type"] != "http.request":
            raise HungUp
        return message.get("body", b""), not message.get("more_body", False)

    def _limit(self) -> int:
        """The most bytes that the body may have; 413 if its content-length is larger."""
        limit = self.route.body_limit or self.shared.body_limit
        if _length(self.headers.get(b"content-length")) > limit:
            raise _too_large()
        return limit

    @contextmanager
    def counted_body(self) -> Iterator[AsyncIterator[bytes]]:
        """The parts of a body, counted as held until the block ends; Busy if too much is held.

        With an Idempotency-Key the body is read and counted before the route reads it.
        """
        if self._is_counted or self.caller is None:
            yield self.stream()
            return
        self._is_counted = True
        arriving, held = self.shared.arriving, 0
        caller = (self.caller.namespace, self.caller.actor)

        async def parts() -> AsyncIterator[bytes]:
            nonlocal held
            async for part in self.stream():
                arriving.hold(caller, len(part))
                held += len(part)
                yield part

        try:
            yield parts()
        finally:
            arriving.release(caller, held)

    def place(self) -> AbstractContextManager[None]:
        """A place in the queue for the store, if the route needs one; Busy if the queue is full.

        Call it only after the body has arrived: a slow client must not hold a place. With an
        Idempotency-Key the place is taken before the key is stored, and the route calls it again.
        """
        share = self.route.share
        if share is None or self._has_place:
            return nullcontext()
        self._has_place = True
        return self.shared.queue.place(share)


def names_of(request: Request) -> dict[str, Any]:
    """The values of the names in the path."""
    return {
        name: _unescaped(name, value) if "%" in value else value
        for name, value in zip(request.route.names, request.values, strict=True)
    }


def _unescaped(name: str, given: str) -> str:
    try:
        return unquote(given, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput(name, "the escaped characters in the path are not UTF-8") from None


def _length(announced: bytes | None) -> float:
    if not announced:
        return 0
    if not announced.isdigit():
        raise HTTPException(400, f"Invalid content-length: {announced.decode('latin-1')!r}")
    return int(announced) if len(announced) < 19 else math.inf


def _too_large() -> HTTPException:
    return HTTPException(413, "Request Entity Too Large")
