"""Whether the targets of deliveries with a limit key have limits for each key."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from duly.domain.endpoints.limits import KeyLimits
from duly.errors import InvalidInput
from duly.ports import Clock, Store

KNOWN_SECONDS = 5.0
"""How long limits are used before they are read again."""


class LimitKeys:
    """Checks the targets of limit keys against the limits in the store, which it keeps a while."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: Mapping[str, KeyLimits] = {}
        self._read_on = float("-inf")

    async def check_limits(self, targets_with_limit_key: Collection[str]) -> None:
        """InvalidInput if one of the targets has no limits for each key."""
        if unlimited := sorted(await self.unlimited(targets_with_limit_key)):
            raise no_key_limits(unlimited[0])

    async def unlimited(self, targets: Collection[str]) -> set[str]:
        """Those of the targets that have no limits for each key."""
        wanted = set(targets)
        if not wanted:
            return wanted
        is_old = self._clock.monotonic() - self._read_on >= KNOWN_SECONDS
        if is_old or not wanted <= self._known.keys():
            await self._read()
        return wanted - self._known.keys()

    async def limits_of(self, target: str) -> KeyLimits | None:
        """The limits for each key of a target, None if it has none."""
        await self._read()
        return self._known.get(target)

    async def _read(self) -> None:
        read_on = self._clock.monotonic()
        limits = await self._store.limits.key_limits([self._store.namespace])
        names = await self._store.targets.named(limits)
        self._known = {names[number].name: each for number, each in limits.items()}
        self._read_on = read_on


def no_key_limits(target: str) -> InvalidInput:
    """The error for a limit key of a target without limits for each key."""
    return InvalidInput(
        "limit_key",
        f"{target} has no limits for each key; declare them with limits="
        'duly.per("customer", in_flight=2) on the handler or endpoint, or leave it out',
    )
