"""Lets deliveries with a unique key continue that waited for one that has ended.

Usually the settlement does so itself. But it does not wait for a key that somebody else has locked,
such as a caller in a long transaction: such keys are looked at here.
"""

from __future__ import annotations

import asyncio

from duly.engine.loops import NOW, Pause
from duly.ports import Store

BATCH = 100


class UniqueKeyTidier:
    """Looks at the keys that were locked when one of their deliveries was settled."""

    name = "unique key tidier"

    def __init__(self, store: Store, interval: float) -> None:
        self.wake = asyncio.Event()
        self._store = store
        self._pause = Pause(interval)

    async def tick(self) -> Pause:
        """Look at a batch of keys; those that are still locked are left for the next time."""
        tidied = await self._store.unique_keys.tidy_unsettled(BATCH)
        if tidied:
            self._store.wakeups.hint()
        return NOW if tidied == BATCH else self._pause
