"""Deadlines of many attempts with one timer: all have the same length, so the oldest is next."""

from __future__ import annotations

import asyncio
from typing import Any


class Deadlines:
    """Cancels tasks that are still here when their time is over.

    A timer of its own for each attempt would cost more than the rest of a short attempt.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends: dict[asyncio.Task[Any], float] = {}
        self._passed: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, task: asyncio.Task[Any]) -> None:
        """Start the task's time."""
        loop = asyncio.get_running_loop()
        self._ends[task] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._look)

    def remove(self, task: asyncio.Task[Any]) -> None:
        """The task is done."""
        self._ends.pop(task, None)
        self._passed.discard(task)

    def passed(self, task: asyncio.Task[Any]) -> bool:
        """Whether it was this deadline that cancelled the task."""
        return task in self._passed

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        for task, ends in list(self._ends.items()):
            if ends > loop.time():
                self._timer = loop.call_at(ends, self._look)
                break
            del self._ends[task]
            self._passed.add(task)
            task.cancel()
