"""Tasks that run several deliveries one after the other, as long as none has to wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from sys import getrefcount
from typing import Any
from weakref import getweakrefcount

from duly.domain.deliveries.delivery import Claimed

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
    """Starts deliveries at once, with as few tasks as possible.

    A new task costs as much as the rest of a short attempt, so a task runs one delivery after the
    other; when it has to wait, new tasks take the rest. A task is not used again unless it is as
    good as new, so each delivery finds it as if it were its own.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._waiting: deque[Claimed] = deque()
        self.tasks: set[asyncio.Task[None]] = set()

    def start(self, claimed: Sequence[Claimed]) -> None:
        """Run these deliveries."""
        self._waiting.extend(claimed)
        self._look(1)

    def _look(self, more: int) -> None:
        if not self._waiting:
            return
        for _ in range(min(more, len(self._waiting))):
            self._add()
        # What is still queued after the first steps of these tasks is behind a waiting attempt.
        asyncio.get_running_loop().call_soon(self._look, more * 2)

    def _add(self) -> None:
        task = asyncio.get_running_loop().create_task(self._work())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _work(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        beginning = Beginning()
        beginning.note(task)
        while self._waiting:
            await self._run(self._waiting.popleft(), task)
            if task.cancelling() or not beginning.is_still_so(task):
                return

    def start_all(self) -> None:
        """Start a task for each queued delivery, so that `tasks` has all that will run."""
        for _ in range(len(self._waiting)):
            self._add()

    def take_back(self) -> list[Claimed]:
        """Remove and return the deliveries that were not started."""
        left = list(self._waiting)
        self._waiting.clear()
        return left
