"""Calls of a server's API: authenticated, retried where that is safe, and page by page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from duly.client.http1 import Connection
from duly.client.pool import LONGEST_ANSWER, Pool, Request, Stale, Unanswered
from duly.client.problems import Reply, value, whole
from duly.ports import Chance, Clock
from duly.records.page import Page
from duly.safe_text import shown_url
from duly.version import __version__

TRIES = 4
UNANSWERED_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 30.0
LONGEST_EXCHANGE_SECONDS = 600.0
"""For one whole answer; a page of large payloads over a slow network takes minutes."""
PAGE = 200
EVENTS = "text/event-stream"
JSON = "application/json"
Item = TypeVar("Item")
Value = TypeVar("Value")


class Requester:
    """The API of one server."""

    def __init__(self, server: str, key: str, pool: Pool, clock: Clock, chance: Chance) -> None:
        self.server = shown_url(server.rstrip("/"))
        self._key = key
        self._pool = pool
        self._clock = clock
        self._chance = chance

    async def get(self, kind: type[Value], *path: str, **query: Any) -> Value:
        """Read something."""
        return await self._value(kind, self._request("GET", path, query), safe=True)

    async def post(
        self,
        kind: type[Value],
        *path: str,
        body: Mapping[str, Any] | bytes | None = None,
        once: bool = False,
        safe: bool = False,
        **query: Any,
    ) -> Value:
        """Send a POST.

        After a lost answer it is repeated if it changes nothing (`safe`), or with `once`, which
        sends an Idempotency-Key so that the server executes it once.
        """
        request = self._request("POST", path, query, body)
        if once:
            key = {"idempotency-key": self._chance.delivery_id()}
            request = msgspec.structs.replace(request, headers={**request.headers, **key})
        return await self._value(kind, request, safe=once or safe)

    async def put(
        self,
        kind: type[Value],
        *path: str,
        body: Mapping[str, Any] | bytes,
        version: int | None = None,
        media: str = JSON,
    ) -> Value:
        """Create or replace something, if it is at that `version`; 0 if it does not exist yet."""
        request = _at_version(self._request("PUT", path, {}, body, media), version)
        return await self._value(kind, request, safe=version is None)

    async def patch(
        self, kind: type[Value], *path: str, body: Mapping[str, Any], version: int | None = None
    ) -> Value:
        """Change the given fields; unlike in other bodies, None is sent, as null."""
        request = self._request("PATCH", path, {}, msgspec.json.encode(body))
        return await self._value(kind, _at_version(request, version), safe=False)

    async def delete(self, *path: str, version: int | None = None, **query: Any) -> None:
        """Remove something, if it is at that `version`."""
        request = _at_version(self._request("DELETE", path, query), version)
        return await self._value(type(None), request, safe=False)

    async def listed(
        self,
        kind: type[Item],
        *path: str,
        limit: int,
        cursor: str | None = None,
        **query: Any,
    ) -> list[Item]:
        """The first `limit` items, from as many pages as it takes; a short page may not be last."""
        found: list[Item] = []
        while True:
            most = min(PAGE, limit - len(found))
            page = await self.get(page_of(kind), *path, limit=most, cursor=cursor, **query)
            found += page.items
            if page.next is None or len(found) >= limit:
                return found
            cursor = str(page.next)

    @asynccontextmanager
    async def streaming(self, *path: str, **headers: str) -> AsyncIterator[Connection]:
        """A connection with server-sent events; any other answer is raised as an error."""
        request = self._request("GET", path, {})
        named = {name.replace("_", "-"): each for name, each in headers.items()}
        request = msgspec.structs.replace(request, headers={**request.headers, **named})
        async with self._pool.streaming(request) as connection:
            await connection.head()
            if not connection.headers.get("content-type", "").startswith(EVENTS):
                value(self.server, await connection.reply(LONGEST_ANSWER), type(None))
            yield connection

    def _request(
        self,
        method: str,
        path: tuple[str, ...],
        query: Mapping[str, Any],
        body: Mapping[str, Any] | bytes | None = None,
        media: str = JSON,
    ) -> Request:
        headers = {"accept": JSON, "user-agent": f"duly/{__version__}"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        if body is not None:
            headers["content-type"] = media
        encoded = urlencode({name: _text(each) for name, each in query.items() if each is not None})
        place = "/".join(("/v1", *(quote(part, safe="") for part in path)))
        return Request(
            method=method,
            path=f"{place}?{encoded}" if encoded else place,
            headers=headers,
            body=body if body is None or isinstance(body, bytes) else whole(body),
        )

    async def _value(self, kind: type[Value], request: Request, *, safe: bool) -> Value:
        return value(self.server, await self._reply(request, safe=safe), kind)

    async def _reply(self, request: Request, *, safe: bool) -> Reply:
        """The answer, after up to TRIES requests."""
        for _ in range(TRIES - 1):
            try:
                reply = await self._exchange(request, safe=safe)
            except Unanswered as error:
                if not safe:
                    advice = f"{error}; check whether it was executed before you try again"
                    raise Unanswered(advice) from error
                if isinstance(error.__cause__, TimeoutError):
                    raise
                await self._clock.sleep(UNANSWERED_SECONDS)
                continue
            wait = _wait(reply, safe=safe)
            if wait is None:
                return reply
            await self._clock.sleep(wait)
        return await self._exchange(request, safe=safe)

    async def _exchange(self, request: Request, *, safe: bool) -> Reply:
        try:
            # Slow bytes never reach the timeout for a silent server.
            async with asyncio.timeout(LONGEST_EXCHANGE_SECONDS):
                try:
                    # A request that must not be repeated gets a connection that cannot be stale.
                    return await self._pool.exchange(request, fresh=not safe)
                except Stale:
                    return await self._pool.exchange(request, fresh=True)
        except TimeoutError as error:
            raise Unanswered(
                f"the server at {self.server} did not finish its answer within "
                f"{LONGEST_EXCHANGE_SECONDS:g} seconds"
            ) from error


def _at_version(request: Request, version: int | None) -> Request:
    """The request, refused by the server if the resource is at another version."""
    if version is None:
        return request
    match = {"if-match": f'"{version}"'} if version else {"if-none-match": "*"}
    return msgspec.structs.replace(request, headers={**request.headers, **match})


def _wait(reply: Reply, *, safe: bool) -> float | None:
    """The seconds to wait before the next try; None if the answer is final.

    After 429 nothing was executed. After 503 that is unknown, and 409 with Retry-After means that
    an earlier try with the same Idempotency-Key is still in progress.
    """
    if reply.status != 429 and not (reply.status in (409, 503) and safe):
        return None
    after = reply.headers.get("retry-after", "")
    if not after.isdecimal() or float(after) > LONGEST_WAIT_SECONDS:
        return None
    return float(after)


def _text(given: object) -> str:
    if isinstance(given, bool):
        return "true" if given else "false"
    return given.isoformat() if isinstance(given, datetime) else str(given)


def page_of(kind: type[Item]) -> type[Page[Item]]:
    """The type of a page of such items."""
    return Page[kind]  # type: ignore[valid-type]
