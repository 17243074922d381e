"""The limits of a server's targets."""

from __future__ import annotations

from collections.abc import Sequence

from duly.client.requester import Requester
from duly.domain import checks
from duly.domain.endpoints.endpoint import wanted_target
from duly.records.limit import Limit, LimitKey
from duly.records.target import EndpointTarget, HandlerTarget


class Limits:
    """The limits of one server."""

    def __init__(self, requester: Requester) -> None:
        self._requester = requester

    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[Limit]:
        """Targets that have limits, by name; `after` is the last one of the previous page."""
        start = checks.checked_start("after", after) or None
        return await self._requester.listed(Limit, "limits", limit=limit, cursor=start)

    async def get(self, target: str | HandlerTarget | EndpointTarget) -> Limit:
        """The limits of a handler or an endpoint, or NotFound if it has none."""
        return await self._requester.get(Limit, "limits", wanted_target(target))

    async def keys(
        self,
        target: str | HandlerTarget | EndpointTarget,
        *,
        after: str = "",
        limit: int = 50,
    ) -> Sequence[LimitKey]:
        """The limit keys of a target that were used lately, with what runs and waits, by key."""
        start = checks.checked_start("after", after) or None
        path = ("limits", wanted_target(target), "keys")
        return await self._requester.listed(LimitKey, *path, limit=limit, cursor=start)
