"""Timeouts of all webhooks with one timer.

A timer for each would cost more than writing the request. And an event loop keeps its context, and
so the delivery, for a while after its end.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from types import TracebackType

LOOK_SECONDS = 0.05
"""How much later than its deadline a wait may end."""


class Deadlines:
    """The deadlines of one event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._ends: dict[Deadline, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def within(self, seconds: float) -> Deadline:
        """A block that may take so long."""
        return Deadline(self, seconds)

    def add(self, deadline: Deadline, seconds: float) -> None:
        """Let it expire after some seconds."""
        self._ends[deadline] = self.loop.time() + seconds
        if self._timer is None:
            self._start()

    def remove(self, deadline: Deadline) -> None:
        """Its block has ended."""
        self._ends.pop(deadline, None)

    def _start(self) -> None:
        self._timer = self.loop.call_later(LOOK_SECONDS, self._look, context=Context())

    def _look(self) -> None:
        now = self.loop.time()
        for each in [each for each, end in self._ends.items() if end <= now]:
            del self._ends[each]
            each.expire()
        self._timer = None
        if self._ends:
            self._start()

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()


class Deadline:
    """Raises TimeoutError if the block takes longer than `seconds`.

    A cancellation from elsewhere remains a CancelledError.
    """

    __slots__ = ("_all", "_cancellations_before", "_is_expired", "_seconds", "_task")

    def __init__(self, deadlines: Deadlines, seconds: float) -> None:
        self._all = deadlines
        self._seconds = seconds
        self._is_expired = False

    def __enter__(self) -> None:
        task = asyncio.current_task(self._all.loop)
        assert task is not None
        self._task = task
        self._cancellations_before = task.cancelling()
        self._all.add(self, self._seconds)

    def expire(self) -> None:
        """Cancel the task: the deadline has passed."""
        self._is_expired = True
        self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._all.remove(self)
        if not self._is_expired:
            return
        is_ours = self._task.uncancel() <= self._cancellations_before
        if is_ours and kind is asyncio.CancelledError:
            raise TimeoutError from error
