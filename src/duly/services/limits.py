"""Limits of targets: listed, with how far they are used."""

from __future__ import annotations

from collections.abc import Sequence

from duly.domain import checks
from duly.domain.endpoints.endpoint import wanted_target
from duly.domain.endpoints.limits import LimitUse, StoredLimits, key_record, limit_record
from duly.errors import NotFound
from duly.ports import Clock, Store
from duly.records.limit import Limit, LimitKey
from duly.records.target import EndpointTarget, HandlerTarget

COUNTED_UP_TO = 10_000


class Limits:
    """The limits of one namespace."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[Limit]:
        """Targets that have limits, by name; `after` is the last one of the previous page."""
        start = checks.checked_start("after", after)
        return await self._records(
            await self._store.limits.page(start, checks.checked_limit(limit))
        )

    async def get(self, target: str | HandlerTarget | EndpointTarget) -> Limit:
        """The limits of a handler or an endpoint, or NotFound if it has none.

        `target` is a handler or its name, `duly.endpoint("billing")` or `endpoint:billing`.
        """
        name = wanted_target(target)
        found = await self._store.limits.get(name)
        if found is None:
            raise no_limits(name)
        return (await self._records([found]))[0]

    async def keys(
        self,
        target: str | HandlerTarget | EndpointTarget,
        *,
        after: str = "",
        limit: int = 50,
    ) -> Sequence[LimitKey]:
        """The limit keys of a target that were used lately, with what runs and waits, by key.

        NotFound if the target has no limits for each key; `after` is the last key of the previous
        page.
        """
        name = wanted_target(target)
        start, most = checks.checked_start("after", after), checks.checked_limit(limit)
        found = await self._store.limits.get(name)
        if found is None or found.key_limits is None:
            raise no_limits(name)
        used, now = await self._store.turns.keys(found.target, start, most, COUNTED_UP_TO)
        limits, seen_at = found.key_limits, now or self._clock.now()
        return [key_record(each, limits, seen_at) for each in used]

    async def _records(self, found: Sequence[StoredLimits]) -> Sequence[Limit]:
        targets = [each.target for each in found]
        used, seen_at = await self._store.limits.use(targets, COUNTED_UP_TO)
        now = seen_at or self._clock.now()
        return [limit_record(each, used.get(each.target, LimitUse()), now) for each in found]


def no_limits(target: str) -> NotFound:
    """The error for a target that has no limits."""
    return NotFound("limit", target, "duly limits shows what there is")
