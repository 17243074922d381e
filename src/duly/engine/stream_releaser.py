"""Lets streams go on whose failed head has blocked them for as long as it may.

The store has the moment, and only the first of several processes that find it past changes
anything. So doing it twice is harmless, and a moment that passed while none ran is found later.
"""

from __future__ import annotations

import asyncio
from datetime import datetime

from duly.domain.events import AlertRaised, StreamReleased
from duly.engine.loops import NOW, Pause
from duly.ports import Emit, EndedBlock, LimitedBlock, Store

BATCH = 100
ACTOR = "duly"


class StreamReleaser:
    """Ends limited blocks, in all namespaces that this process works for."""

    name = "stream releaser"

    def __init__(self, store: Store, emit: Emit, interval: float) -> None:
        self.wake = asyncio.Event()
        self._store = store
        self._emit = emit
        self._interval = interval

    async def tick(self) -> Pause:
        """End the blocks that are over, at most a batch; wait until the next one is."""
        found = await self._store.agenda.limited_blocks(BATCH)
        over = [each for each in found if each.seconds_left <= 0]
        ended = [each for each in over if await self._end(each)]
        if ended:
            self._store.wakeups.hint()
        if len(ended) == BATCH:
            return NOW
        waits = [each.seconds_left for each in found[len(over) :]]
        return Pause(min([self._interval, *waits]))

    async def next_at(self) -> datetime | None:
        """When the next block ends."""
        found = await self._store.agenda.limited_blocks(1)
        return found[0].until if found else None

    async def _end(self, block: LimitedBlock) -> bool:
        """End it, unless another process has; returns whether this one did."""
        ended = await self._store.within(block.namespace).streams.end_block(block.name, ACTOR)
        if ended is not None:
            self._report(ended, block.namespace)
        return ended is not None

    def _report(self, ended: EndedBlock, namespace: str) -> None:
        foreign = None if namespace == self._store.namespace else namespace
        self._emit(
            StreamReleased(
                stream=ended.name, delivery=ended.head, seconds=ended.block_for, namespace=foreign
            )
        )
        if (alert := ended.alert) is not None:
            self._emit(
                AlertRaised(
                    kind=alert.kind,
                    subject=alert.subject,
                    detail=alert.detail,
                    namespace=foreign,
                )
            )
