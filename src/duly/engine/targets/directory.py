"""The targets: their namespaces, and which of them this worker can reach."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from duly.domain.endpoints.endpoint import is_outside
from duly.ports import Store, TargetName, Transport


class TargetDirectory:
    """The targets that this worker has seen, by their numbers."""

    def __init__(self, store: Store, transport: Transport) -> None:
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
