"""Which targets there are, and which of them are in this worker's reach."""

from __future__ import annotations

from collections.abc import Callable, Collection

from duly.ports import Targets, Transport


class Known:
    """Targets by their numbers, as far as this worker came across them."""

    def __init__(
        self, targets: Targets, transport: Transport, on_known: Callable[[int, str], None]
    ) -> None:
        self.names: dict[int, str] = {}
        """Those in reach."""
        self.on_more: Callable[[], None] = _nobody_waits
        """Told when one came into reach after the start."""
        self._targets = targets
        self._transport = transport
        self._on_known = on_known
        self._elsewhere: set[int] = set()

    async def at_start(self) -> None:
        """Make the handlers of this process known, and learn their numbers."""
        numbers = await self._targets.numbers(self._transport.serves(), create=True)
        for name, number in numbers.items():
            self._know(number, name)

    async def learn(self, seen: Collection[int]) -> None:
        """Learn the names of targets that were not there at the start, and which are in reach."""
        unknown = set(seen) - self.names.keys() - self._elsewhere
        if not unknown:
            return
        names = await self._targets.refresh()
        in_reach = {each for each in unknown & names.keys() if self._transport.reaches(names[each])}
        for number in in_reach:
            self._know(number, names[number])
        self._elsewhere |= (unknown & names.keys()) - in_reach
        if in_reach:
            self.on_more()

    def _know(self, number: int, name: str) -> None:
        self.names[number] = name
        self._on_known(number, name)


def _nobody_waits() -> None:
    """Until somebody says otherwise."""
