"""Which targets there are, whose they are, and which of them are in this worker's reach."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from duly.ports import Store, TargetName, Transport


class TargetDirectory:
    """Targets by their numbers, as far as this worker came across them."""

    def __init__(
        self, store: Store, transport: Transport, on_known: Callable[[int, str], None]
    ) -> None:
        self.names: dict[int, str] = {}
        """Those in reach."""
        self.foreign: dict[int, str] = {}
        """The namespaces of those that are not of the worker's own."""
        self.on_more: Callable[[], None] = _nobody_waits
        """Told when one came into reach after the start."""
        self._store = store
        self._transport = transport
        self._on_known = on_known
        self._elsewhere: set[int] = set()

    async def at_start(self) -> None:
        """Make the handlers of this process known, and learn their numbers."""
        numbers = await self._store.targets.numbers(self._transport.serves(), create=True)
        for name, number in numbers.items():
            self._know(number, name)

    async def learn(self, seen: Collection[int]) -> None:
        """Learn the names of targets that were not there at the start, and which are in reach."""
        unknown = set(seen) - self.names.keys() - self._elsewhere
        if unknown:
            self.note(await self._store.targets.named(unknown))

    def note(self, found: Mapping[int, TargetName]) -> None:
        """Keep what somebody read of targets, in reach or not."""
        found = {each: found[each] for each in found.keys() - self.names.keys() - self._elsewhere}
        in_reach = {each for each in found if self._transport.reaches(found[each].name)}
        for number in in_reach:
            self._know(number, found[number].name)
        for number, to in found.items():
            if to.namespace != self._store.namespace:
                self.foreign[number] = to.namespace
        self._elsewhere |= found.keys() - in_reach
        if in_reach:
            self.on_more()

    def _know(self, number: int, name: str) -> None:
        self.names[number] = name
        self._on_known(number, name)

    def namespace(self, target: int) -> str:
        """Whose target it is."""
        return self.foreign.get(target, self._store.namespace)


def _nobody_waits() -> None:
    """Until somebody says otherwise."""
