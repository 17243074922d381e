"""The targets: their namespaces, and which of them this worker can reach."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

from duly.domain.endpoints.endpoint import is_outside
from duly.domain.endpoints.limits import NO_LIMITS, DeclaredLimits
from duly.ports import Store, TargetName, Transport

Limits = Mapping[str, DeclaredLimits]


class TargetDirectory:
    """The targets that this worker has seen, by their numbers."""

    def __init__(
        self, store: Store, transport: Transport, limits: Callable[[], Limits] = dict
    ) -> None:
        self.names: dict[int, str] = {}
        """The targets that this worker can reach."""
        self.foreign: dict[int, str] = {}
        """The namespaces of targets that are not in the worker's own."""
        self.outside: set[int] = set()
        """Reachable endpoints and URLs."""
        self.found_more = asyncio.Event()
        """Set when another reachable target is found."""
        self._store = store
        self._transport = transport
        self._limits = limits
        self._declared: set[int] = set()
        self._elsewhere: set[int] = set()

    async def load(self) -> None:
        """Register the handlers of this process in the store, and read their numbers."""
        numbers = await self._store.targets.numbers(self._transport.serves(), create=True)
        for name, number in numbers.items():
            self._add(number, name)

    async def learn(self, seen: Collection[int]) -> None:
        """Read the names of new targets, and which of them are reachable."""
        unknown = set(seen) - self.names.keys() - self._elsewhere
        if unknown:
            self.note(await self._store.targets.named(unknown))

    async def add_limits(self, seen: Collection[int]) -> bool:
        """Store the limits of handlers in other namespaces; whether there were new ones.

        A namespace may get its first delivery for a handler after the start of the app that
        declared the handler's limits.
        """
        new = (self.foreign.keys() & self.names.keys() & set(seen)) - self._declared
        if not new:
            return False
        declared = self._limits()
        found = {each: declared.get(self.names[each], NO_LIMITS) for each in new}
        limits = {each: limits for each, limits in found.items() if not limits.is_none}
        await self._store.limits.add(limits)
        self._declared |= new
        return bool(limits)

    def note(self, found: Mapping[int, TargetName]) -> None:
        """Add targets that were read."""
        found = {each: found[each] for each in found.keys() - self.names.keys() - self._elsewhere}
        in_reach = {each for each in found if self._transport.reaches(found[each].name)}
        for number in in_reach:
            self._add(number, found[number].name)
        for number, to in found.items():
            if to.namespace != self._store.namespace:
                self.foreign[number] = to.namespace
        self._elsewhere |= found.keys() - in_reach
        if in_reach:
            self.found_more.set()

    def _add(self, number: int, name: str) -> None:
        self.names[number] = name
        if is_outside(name):
            self.outside.add(number)

    def namespace(self, target: int) -> str:
        """The namespace of a target."""
        return self.foreign.get(target, self._store.namespace)
