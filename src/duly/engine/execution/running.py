"""Writes what running attempts report, and cancels those that somebody asked to cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from duly.engine.execution.delivery_runner import DeliveryRunner
from duly.engine.execution.executor import Executor
from duly.engine.loops import Pause
from duly.errors import Conflict, NotFound
from duly.ports import Report, RunningDelivery

EVERY_SECOND = Pause(1.0)
IDLE_TICKS = 5
"""A worker without running attempts looks so rarely: for requests that others could not obey."""


class RunningMonitor:
    """Looks once a second, so a report is seen, and a request obeyed, within a second or two."""

    name = "running deliveries"

    def __init__(self, executor: Executor, runner: DeliveryRunner) -> None:
        self.wake = asyncio.Event()
        self._executor = executor
        self._runner = runner
        self._store = executor.store
        self._idle_ticks = 0

    async def tick(self) -> Pause:
        """Look now, unless nothing runs here."""
        self._idle_ticks = 0 if self._is_used else self._idle_ticks + 1
        if self._idle_ticks % IDLE_TICKS == 0:
            await self.look()
        return EVERY_SECOND

    @property
    def _is_used(self) -> bool:
        return bool(self._runner.running or self._executor.reports)

    async def look(self) -> None:
        """Write the latest report of each attempt, and act on requests."""
        await self._write()
        found = await self._store.running.look()
        for each in found:
            if each.is_asked and not each.is_over:
                await self._cancel(each)
        if any(each.is_over or (each.is_stale and not each.is_asked) for each in found):
            await self._store.running.clear()

    async def _write(self) -> None:
        waiting = self._executor.reports
        # One by one: other threads may add some meanwhile.
        taken = [waiting.pop(key) for key in list(waiting)]
        if not taken:
            return
        try:
            await self._store.running.report(_latest(taken))
        except BaseException:
            for each in taken:
                waiting.setdefault((each.delivery, each.token), each)
            raise

    async def _cancel(self, running: RunningDelivery) -> None:
        if running.held is not None:
            self._runner.cancel(running.delivery, running.held)
        elif running.namespace is not None:
            # Its attempt failed, or its worker died, before it could obey.
            deliveries = self._store.within(running.namespace).deliveries
            try:
                await deliveries.cancel(running.delivery, running.asked_by)
            except (Conflict, NotFound):
                return  # it runs again, or has ended; the next look tells


def _latest(reports: Iterable[Report]) -> list[Report]:
    """One report of each delivery, as one statement writes them: that of the highest token."""
    ordered = sorted(reports, key=lambda each: each.token)
    return list({each.delivery: each for each in ordered}.values())
