"""Saying so while late work is being drained: how much is left, how old, how fast, how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from duly.domain.events import RecoveryBegan, RecoveryEnded, RecoveryGoesOn
from duly.domain.situation import Recovering
from duly.engine.loops import Emit, Pause
from duly.ports import Agenda, Clock

LOOK_SECONDS = 5.0
WHILE_RECOVERING = Pause(1.0)
TELL_SECONDS = 30.0


class Backlog:
    """Looks now and then whether what this worker serves is late, and how it goes down."""

    name = "backlog"

    def __init__(
        self,
        agenda: Agenda,
        clock: Clock,
        emit: Emit,
        served: Callable[[], Collection[int]],
        grace: timedelta,
    ) -> None:
        self.wake = asyncio.Event()
        self.recovering: Recovering | None = None
        self._agenda = agenda
        self._clock = clock
        self._emit = emit
        self._served = served
        self._grace = grace
        self._began: tuple[float, int] = (0.0, 0)
        self._told_at = 0.0

    async def tick(self) -> Pause:
        """Look, and tell when late work begins, goes on and ends."""
        late = await self._agenda.late_work(self._grace, self._served())
        now = self._clock.monotonic()
        if late is None:
            self._end(now)
            return Pause(LOOK_SECONDS)
        if self.recovering is None:
            self._began, self._told_at = (now, late.count), now
            self._emit(RecoveryBegan(deliveries=late.count, oldest=late.oldest))
        self.recovering = self._measured(late.count, late.oldest, now)
        self._go_on(self.recovering, now)
        return WHILE_RECOVERING

    def _measured(self, count: int, oldest: datetime, now: float) -> Recovering:
        began, first_count = self._began
        drained, seconds = first_count - count, now - began
        if drained <= 0 or seconds <= 0:
            return Recovering(count, oldest)
        rate = drained / seconds
        return Recovering(count, oldest, round(rate, 1), round(count / rate, 1))

    def _go_on(self, recovering: Recovering, now: float) -> None:
        if now - self._told_at >= TELL_SECONDS:
            self._told_at = now
            self._emit(
                RecoveryGoesOn(
                    deliveries=recovering.count,
                    oldest=recovering.oldest,
                    rate=recovering.rate or 0.0,
                    seconds_left=recovering.seconds_left,
                )
            )

    def _end(self, now: float) -> None:
        if self.recovering is not None:
            began, first_count = self._began
            self._emit(RecoveryEnded(deliveries=first_count, seconds=round(now - began, 1)))
        self.recovering = None
