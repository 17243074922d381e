"""Asking a server: with its key, again when it asks for patience, and page by page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from duly.client.messages import Reply, Request, Unanswered
from duly.client.problems import value, whole
from duly.ports import Chance, Clock
from duly.records.page import Page
from duly.safe_text import shown_url
from duly.system import Threads
from duly.version import __version__

TRIES = 4
UNANSWERED_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 30.0
LONGEST_EXCHANGE_SECONDS = 600.0
"""How long one answer may take in all; a page of large payloads over a slow line takes minutes."""
LATER = (429, 503)
PAGE = 200
Item = TypeVar("Item")
Value = TypeVar("Value")


class Wire:
    """The way to one server."""

    def __init__(self, server: str, key: str, clock: Clock, chance: Chance) -> None:
        self._server = server.rstrip("/")
        self._key = key
        self._clock = clock
        self._chance = chance
        # Whoever is interrupted does not wait for an answer that nobody wants any more.
        self._threads = Threads()

    async def get(self, kind: type[Value], *path: str, **query: Any) -> Value:
        """What is there; as all that changes nothing, or may be done twice, it is `safe`."""
        return await self._value(kind, self._request("GET", path, query), safe=True)

    async def post(
        self,
        kind: type[Value],
        *path: str,
        body: Mapping[str, Any] | None = None,
        once: bool = False,
        safe: bool = False,
    ) -> Value:
        """Have something done; `once` makes it safe to ask again when the answer was lost."""
        request = self._request("POST", path, {}, body)
        if once:
            key = {"idempotency-key": self._chance.delivery_id()}
            request = msgspec.structs.replace(request, headers={**request.headers, **key})
        return await self._value(kind, request, safe=once or safe)

    async def put(
        self, kind: type[Value], *path: str, body: Mapping[str, Any], version: int | None = None
    ) -> Value:
        """Make it so, if it is at that `version`; 0 is one that is not there yet."""
        request = _at_version(self._request("PUT", path, {}, body), version)
        return await self._value(kind, request, safe=version is None)

    async def patch(self, kind: type[Value], *path: str, body: Mapping[str, Any]) -> Value:
        """Change some of it; null is said, and means something."""
        request = self._request("PATCH", path, {})
        said = {**request.headers, "content-type": "application/json"}
        request = msgspec.structs.replace(request, body=msgspec.json.encode(body), headers=said)
        return await self._value(kind, request, safe=False)

    async def delete(self, *path: str, version: int | None = None, **query: Any) -> None:
        """Remove it, if it is at that `version`."""
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
        """As many as asked for, if there are so many; a page may be short and not the last."""
        found: list[Item] = []
        while True:
            most = min(PAGE, limit - len(found))
            page = await self.get(page_of(kind), *path, limit=most, cursor=cursor, **query)
            found += page.items
            if page.next is None or len(found) >= limit:
                return found
            cursor = str(page.next)

    def _request(
        self,
        method: str,
        path: tuple[str, ...],
        query: Mapping[str, Any],
        body: Mapping[str, Any] | None = None,
    ) -> Request:
        headers = {"accept": "application/json", "user-agent": f"duly/{__version__}"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        if body is not None:
            headers["content-type"] = "application/json"
        asked = urlencode({name: _said(each) for name, each in query.items() if each is not None})
        place = "/".join(("/v1", *(quote(part, safe="") for part in path)))
        return Request(
            method=method,
            path=f"{place}?{asked}" if asked else place,
            headers=headers,
            body=None if body is None else whole(body),
        )

    async def _value(self, kind: type[Value], request: Request, *, safe: bool) -> Value:
        return value(shown_url(self._server), await self._reply(request, safe=safe), kind)

    async def _reply(self, request: Request, *, safe: bool) -> Reply:
        """The answer, after as much patience as is asked for, a few times."""
        for _ in range(TRIES - 1):
            try:
                reply = await self._asked(request)
            except Unanswered as error:
                if not safe:
                    told = f"{error}; look whether it was done before you try again"
                    raise Unanswered(told) from error
                if isinstance(error.__cause__, TimeoutError):
                    raise  # It had all the time there is.
                await self._clock.sleep(UNANSWERED_SECONDS)
                continue
            wait = _wait(reply, safe=safe)
            if wait is None:
                return reply
            await self._clock.sleep(wait)
        return await self._asked(request)

    async def _asked(self, request: Request) -> Reply:
        # Imported here: most commands ask no server.
        from duly.client.exchange import exchanged

        asking = self._threads.run(lambda: exchanged(self._server, request))
        try:
            # One that drips its answer would be waited for without end.
            async with asyncio.timeout(LONGEST_EXCHANGE_SECONDS):
                reply: Reply = await asyncio.wrap_future(asking)
        except TimeoutError as error:
            raise Unanswered(
                f"the server at {shown_url(self._server)} did not finish its answer within "
                f"{LONGEST_EXCHANGE_SECONDS:g} seconds"
            ) from error
        return reply


def _at_version(request: Request, version: int | None) -> Request:
    """The request, refused by the server if the resource is at another version."""
    if version is None:
        return request
    match = {"if-match": f'"{version}"'} if version else {"if-none-match": "*"}
    return msgspec.structs.replace(request, headers={**request.headers, **match})


def _wait(reply: Reply, *, safe: bool) -> float | None:
    """How long to wait before it is asked again; None when that is no use.

    Who is told that there is too much to do (429) was not heard at all; who is told that the store
    is away (503) does not know that.
    """
    if reply.status not in LATER or (reply.status == 503 and not safe):
        return None
    after = reply.headers.get("retry-after", "")
    if not after.isdecimal() or float(after) > LONGEST_WAIT_SECONDS:
        return None
    return float(after)


def _said(given: object) -> str:
    if isinstance(given, bool):
        return "true" if given else "false"
    return given.isoformat() if isinstance(given, datetime) else str(given)


def page_of(kind: type[Item]) -> type[Page[Item]]:
    """A page of such things."""
    return Page[kind]  # type: ignore[valid-type]
