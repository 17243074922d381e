"""The endpoints of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack

import msgspec

from duly.client.bulk import Moving
from duly.client.requester import Requester
from duly.domain import checks
from duly.domain.deliveries import payloads, retry
from duly.domain.endpoints.endpoint import LONGEST_TEST, OVERLAP
from duly.domain.endpoints.limits import checked_per_key
from duly.records.dead_letter import BulkProgress, BulkResult
from duly.records.endpoint import (
    Endpoint,
    EndpointChangeKeywords,
    EndpointKeywords,
    EndpointTest,
    EndpointWithSecret,
)


class Endpoints:
    """The endpoints of one server."""

    def __init__(self, requester: Requester, moving: Moving) -> None:
        self._requester = requester
        self._moving = moving

    async def add(
        self,
        name: str,
        url: str,
        *,
        secret: str | None = None,
        **options: Unpack[EndpointKeywords],
    ) -> EndpointWithSecret:
        """Add an endpoint; without `secret` one is generated. Conflict if the name exists."""
        body = {"name": name, "url": url, "secret": secret, **_checked(options)}
        return await self._requester.post(EndpointWithSecret, "endpoints", body=body)

    async def get(self, name: str) -> Endpoint:
        """One endpoint, or NotFound; with its whole URL if the key has scope admin."""
        return await self._requester.get(Endpoint, *_place(name))

    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[Endpoint]:
        """Endpoints by name; `after` is the last name of the previous page."""
        start = checks.checked_start("after", after) or None
        return await self._requester.listed(Endpoint, "endpoints", limit=limit, cursor=start)

    async def edit(
        self,
        name: str,
        *,
        version: int | None = None,
        header_changes: Mapping[str, str | None] | None = None,
        **options: Unpack[EndpointChangeKeywords],
    ) -> Endpoint:
        """Change the given options; each delivery uses them from its next attempt on."""
        body = _checked(options) | ({"header_changes": header_changes} if header_changes else {})
        return await self._requester.patch(Endpoint, *_place(name), body=body, version=version)

    async def pause(self, name: str, reason: str | None = None) -> Endpoint:
        """Let its deliveries wait until it is resumed; attempts under way continue."""
        return await self._requester.post(Endpoint, *_place(name), "pause", body={"reason": reason})

    async def resume(self, name: str) -> Endpoint:
        """Send its deliveries again after it was paused or disabled, or its circuit opened."""
        return await self._requester.post(Endpoint, *_place(name), "resume")

    async def rotate(
        self, name: str, *, secret: str | None = None, overlap: timedelta = OVERLAP
    ) -> EndpointWithSecret:
        """Set a new secret; for `overlap`, requests are signed with the old one too."""
        body = {"secret": secret, "overlap_seconds": overlap.total_seconds()}
        return await self._requester.post(EndpointWithSecret, *_place(name), "rotate", body=body)

    async def test(self, name: str, payload: Any = None) -> EndpointTest:
        """Let the server send a test request at once; nothing is stored."""
        body = {}
        if payload is not None:
            body["payload"] = msgspec.Raw(payloads.payload_bytes(payload, LONGEST_TEST))
        return await self._requester.post(EndpointTest, *_place(name), "test", body=body)

    async def remove(
        self, name: str, *, cancel_waiting: bool = False, version: int | None = None
    ) -> None:
        """Remove it; Conflict if deliveries wait for it, unless `cancel_waiting` cancels them."""
        await self._requester.delete(*_place(name), cancel_waiting=cancel_waiting, version=version)

    async def count_dead(self, name: str, since: datetime, until: datetime | None = None) -> int:
        """The number of dead letters that `recover` would retry."""
        body = {"since": since, "until": until, "dry_run": True}
        place = (*_place(name), "recover")
        return (await self._requester.post(BulkResult, *place, body=body, safe=True)).matching

    def recover(
        self,
        name: str,
        since: datetime,
        *,
        rate: float | None = None,
        until: datetime | None = None,
    ) -> AsyncIterator[BulkProgress]:
        """Retry its dead letters since a moment, at most `rate` per second; yields the progress."""
        body = {"since": since, "until": until, "rate": rate}
        return self._moving.all((*_place(name), "recover"), body, rate)


def _checked(options: EndpointChangeKeywords | EndpointKeywords) -> dict[str, Any]:
    """The options, with those checked for which the server would name a field of the body."""
    if options.get("retry") is not None:
        retry.encode_checked(options["retry"])
    if options.get("limits") is not None:
        checked_per_key(options["limits"])
    return dict(options)


def _place(name: str) -> tuple[str, str]:
    return "endpoints", checks.checked_text("name", name)
