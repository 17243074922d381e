"""Tasks that run several deliveries one after the other, as long as none has to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from sys import getrefcount
from typing import Any
from weakref import getweakrefcount

from duly.domain.deliveries.delivery import Claimed
from duly.engine.execution.waiting import Waiting
from duly.engine.loops import YieldOnce

AT_ONCE = 64
"""How many deliveries that never wait run before the rest of the process gets its turn."""
Run = Callable[[Claimed, "asyncio.Task[Any]"], Awaitable[None]]


class Beginning:
    """A task before its first delivery: its context, and how many references there are to it.

    Somebody who keeps something for the current task, as SQLAlchemy's `async_scoped_session` does
    with sessions, keeps a reference to it. The next delivery must not find that.
    """

    __slots__ = ("_context", "_references", "_weak_references")

    def __init__(self) -> None:
        self._context = copy_context()
        self._references = self._weak_references = 0

    def note(self, task: asyncio.Task[Any]) -> None:
        """Count the references; called like `is_still_so`, since the arguments count as well."""
        self._references = getrefcount(task)
        self._weak_references = getweakrefcount(task)

    def is_still_so(self, task: asyncio.Task[Any]) -> bool:
        """Whether no delivery has left anything behind."""
        return (
            copy_context() == self._context
            and getrefcount(task) <= self._references
            and getweakrefcount(task) <= self._weak_references
        )

    @property
    def context(self) -> Context:
        """A copy of the context, for another task."""
        return self._context.copy()


class TaskPool:
    """Starts deliveries at once, with as few tasks as possible, and never more than `most`.

    A new task costs as much as the rest of a short attempt, so a task runs one delivery after the
    other; when it has to wait, new tasks take the rest. A task is not used again unless it is as
    good as new, so each delivery finds it as if it were its own.
    """

    def __init__(self, run: Run, most: int) -> None:
        self._run = run
        self._most = most
        self.waiting = Waiting()
        self._later: dict[asyncio.TimerHandle, Sequence[Claimed]] = {}
        self._postponed = self._in_a_row = 0
        self._is_resting = self._is_draining = False
        self.tasks: set[asyncio.Task[None]] = set()

    def start(self, claimed: Sequence[Claimed], now: float = 0.0) -> None:
        """Run these deliveries."""
        self._is_draining = False
        self.waiting.join(claimed, now)
        self._look(1)

    def go_on(self, claimed: Sequence[Claimed], now: float) -> None:
        """Run these before all others, the first in the task of the delivery that just ended."""
        self.waiting.go_on(claimed, now)
        if len(claimed) > 1:
            self._look(1)

    def start_later(self, seconds: float, claimed: Sequence[Claimed]) -> None:
        """Run these deliveries after some seconds, or when `start_all` is called."""

        def begin() -> None:
            due = self._later.pop(timer)
            self._postponed -= len(due)
            # Their slots were kept for them.
            self.waiting.extendleft(reversed(due))
            self._look(1)

        self._is_draining = False
        timer = asyncio.get_running_loop().call_later(seconds, begin)
        self._later[timer] = claimed
        self._postponed += len(claimed)

    def _look(self, more: int) -> None:
        free = self._most - len(self.tasks) - self._postponed
        if not self.waiting or free <= 0 or self._is_draining:
            return
        if self._is_resting:
            # The queue is not behind a waiting attempt: the task goes on with it by itself.
            self._is_resting = False
        else:
            for _ in range(min(more, len(self.waiting), free)):
                self._add()
            more *= 2
        # What is still queued after the first steps of these tasks is behind a waiting attempt.
        asyncio.get_running_loop().call_soon(self._look, more)

    def _add(self) -> None:
        task = asyncio.get_running_loop().create_task(self._work())
        self.tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self._look(1)

    async def _work(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        beginning = Beginning()
        beginning.note(task)
        while self.waiting:
            await self._run(self.waiting.popleft(), task)
            if task.cancelling() or not beginning.is_still_so(task):
                return
            self._in_a_row += 1
            if self._in_a_row >= AT_ONCE:
                self._in_a_row, self._is_resting = 0, True
                await YieldOnce()

    def start_all(self) -> None:
        """Start a task for each queued delivery, so that `tasks` has all that will run."""
        self._is_draining = True
        for timer, claimed in self._later.items():
            timer.cancel()
            self.waiting.extend(claimed)
        self._later.clear()
        self._postponed = 0
        for _ in range(len(self.waiting)):
            self._add()

    def take_back(self) -> list[Claimed]:
        """Remove and return the deliveries that were not started."""
        left = list(self.waiting)
        self.waiting.clear()
        return left
