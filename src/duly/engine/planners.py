"""Plans for every namespace that this process works for: a planner for each, in turn.

One statement finds the namespaces with due schedules, so the others cost nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from duly.domain.events import ClockIsBehind, ClockStepped, Event, PlannerTicked
from duly.engine.loops import NOW, REST, Pause, contained
from duly.engine.planner import Planner
from duly.ports import Clock, Emit, Store

MakePlanner = Callable[[Store, Emit], Planner]
Outcome = TypeVar("Outcome")
OF_THE_CLOCK = (ClockStepped, ClockIsBehind, PlannerTicked)
"""All namespaces share one clock: only one planner reports about it."""


class Planners:
    """The planner of the process's own namespace, and those of others as needed."""

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
        """Plan one batch in each namespace with due schedules."""
        waits = [await self._tick_own()]
        for namespace, wait in (await self._soonest()).items():
            if wait <= 0:
                wait = (await self._contained(namespace, self._planner(namespace).tick())).seconds
                # An unreadable schedule stays due: its planner says when to try again.
                self._rests_until[namespace] = self._clock.monotonic() + wait
            waits.append(wait)
        seconds = min(waits)
        return NOW if seconds <= 0 else Pause(min(seconds, self._poll))

    async def _tick_own(self) -> float:
        """Plan one batch of the own namespace; returns the seconds until the next may be due."""
        if self._own is None:
            return self._poll
        own, now = self._store.namespace, self._clock.monotonic()
        rest = self._rests_until.get(own, now) - now
        if rest > 0:
            return rest
        return (await self._contained(own, self._own.tick())).seconds

    async def _contained(self, namespace: str, planning: Awaitable[Outcome]) -> Outcome | Pause:
        foreign = None if namespace == self._store.namespace else namespace
        outcome = await contained(self.name, foreign, self._emit, planning)
        if outcome is REST:
            self._rests_until[namespace] = self._clock.monotonic() + REST.seconds
        return outcome

    async def _soonest(self) -> dict[str, float]:
        """Seconds until each other namespace has something to plan."""
        if self._served == [self._store.namespace]:
            return {}
        now, found = self._clock.monotonic(), {}
        for each in await self._store.plans.next_plans(self._served):
            if each.namespace != self._store.namespace:
                rest = self._rests_until.get(each.namespace, now) - now
                found[each.namespace] = max((each.next_at - each.seen_at).total_seconds(), rest)
        return found

    def _planner(self, namespace: str) -> Planner:
        if namespace not in self._others:
            watches = self._own is None and not self._others

            def emit(event: Event) -> None:
                if watches or not isinstance(event, OF_THE_CLOCK):
                    self._emit(msgspec.structs.replace(event, namespace=namespace))

            self._others[namespace] = self._make(self._store.within(namespace), emit)
        return self._others[namespace]

    async def catch_up(self) -> None:
        """Plan all that is due now, and wait for other planners to finish theirs."""
        if self._own is not None:
            await self._contained(self._store.namespace, self._own.catch_up())
        for namespace, wait in (await self._soonest()).items():
            if wait <= 0:
                await self._contained(namespace, self._planner(namespace).catch_up())

    async def at_start(self) -> None:
        """Replan schedules whose time zone data has changed, then catch up."""
        if self._own is not None:
            await self._contained(self._store.namespace, self._own.at_start())
        for namespace in await self._soonest():
            await self._contained(namespace, self._planner(namespace).at_start())
