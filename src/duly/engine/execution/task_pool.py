"""Tasks that carry deliveries, one after the other, as long as none of them has to wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from typing import Any

from duly.domain.deliveries.delivery import Claimed

Carry = Callable[[Claimed, "asyncio.Task[Any]"], Awaitable[None]]


class TaskPool:
    """Starts what it is given at once, with as few tasks as will do.

    A task costs as much as the rest of a short attempt. So one carrier takes delivery after
    delivery; whenever it waits for something, others take the rest. Each delivery finds the task
    as if it were new: one whose context was changed, or that somebody cancelled, carries no more.
    """

    def __init__(self, carry: Carry) -> None:
        self._carry = carry
        self._waiting: deque[Claimed] = deque()
        self.tasks: set[asyncio.Task[None]] = set()

    def start(self, claimed: Sequence[Claimed]) -> None:
        """Have these carried."""
        self._waiting.extend(claimed)
        self._look(1)

    def _look(self, more: int) -> None:
        if not self._waiting:
            return
        for _ in range(min(more, len(self._waiting))):
            self._add()
        # Whatever still waits after the first steps of these waits behind an attempt that does.
        asyncio.get_running_loop().call_soon(self._look, more * 2)

    def _add(self) -> None:
        task = asyncio.get_running_loop().create_task(self._work())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _work(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        fresh = copy_context()
        while self._waiting:
            await self._carry(self._waiting.popleft(), task)
            if task.cancelling() or copy_context() != fresh:
                return

    def spread(self) -> None:
        """A carrier for each that still waits, so that all that will ever run is known."""
        for _ in range(len(self._waiting)):
            self._add()

    def take_back(self) -> list[Claimed]:
        """What nobody began to carry."""
        left = list(self._waiting)
        self._waiting.clear()
        return left
