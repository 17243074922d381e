"""Planning for every namespace that this process works for: a planner for each, in turn.

One statement finds the namespaces in which something is due to be planned, so those in which
nothing is cost nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from duly.domain.events import Event
from duly.engine.loops import NOW, Emit, Pause
from duly.engine.planner import Planner
from duly.ports import Clock, Store

MakePlanner = Callable[[Store, Emit], Planner]


class Planners:
    """The planner of the process's own namespace, and those of the others as they are needed."""

    name = "planner"

    def __init__(
        self,
        store: Store,
        served: Sequence[str] | None,
        clock: Clock,
        emit: Emit,
        make: MakePlanner,
        *,
        poll: float,
    ) -> None:
        self.wake = asyncio.Event()
        self._store = store
        self._served = served
        self._clock = clock
        self._emit = emit
        self._make = make
        self._poll = poll
        self._own = make(store, emit) if self._serves_own else None
        self._others: dict[str, Planner] = {}
        self._rests_until: dict[str, float] = {}

    @property
    def _serves_own(self) -> bool:
        return self._served is None or self._store.namespace in self._served

    async def tick(self) -> Pause:
        """Plan one batch of each namespace in which something is due."""
        pause = Pause(self._poll) if self._own is None else await self._own.tick()
        waits = [pause.seconds]
        for namespace, wait in (await self._soonest()).items():
            if wait <= 0:
                wait = (await self._planner(namespace).tick()).seconds
                # A schedule that cannot be read stays due: its planner says when to look again.
                self._rests_until[namespace] = self._clock.monotonic() + wait
            waits.append(wait)
        seconds = min(waits)
        return NOW if seconds <= 0 else Pause(min(seconds, self._poll))

    async def _soonest(self) -> dict[str, float]:
        """Seconds until each of the other namespaces has something to plan."""
        if self._served == [self._store.namespace]:
            return {}
        now, found = self._clock.monotonic(), {}
        for each in await self._store.plans.soonest(self._served):
            if each.namespace != self._store.namespace:
                rest = self._rests_until.get(each.namespace, now) - now
                found[each.namespace] = max((each.next_at - each.seen_at).total_seconds(), rest)
        return found

    def _planner(self, namespace: str) -> Planner:
        if namespace not in self._others:

            def emit(event: Event) -> None:
                self._emit(msgspec.structs.replace(event, namespace=namespace))

            self._others[namespace] = self._make(self._store.within(namespace), emit)
        return self._others[namespace]

    async def catch_up(self) -> None:
        """Plan all that is due now, and wait for what others are planning."""
        if self._own is not None:
            await self._own.catch_up()
        for namespace, wait in (await self._soonest()).items():
            if wait <= 0:
                await self._planner(namespace).catch_up()

    async def at_start(self) -> None:
        """Compute anew what zone data that has changed would have otherwise, then catch up."""
        if self._own is not None:
            await self._own.at_start()
        for namespace in await self._soonest():
            await self._planner(namespace).at_start()
