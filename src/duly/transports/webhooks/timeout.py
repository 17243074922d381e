"""An end to waiting, for every webhook: `asyncio.timeout` at a third of its price."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Deadline:
    """TimeoutError for whoever still waits within the block after so many seconds.

    A cancellation that comes from elsewhere stays one.
    """

    __slots__ = ("_ends", "_is_over", "_pending", "_seconds", "_task")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_over = False

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        self._task = task
        self._pending = task.cancelling()
        self._ends = loop.call_later(self._seconds, self._end)

    def _end(self) -> None:
        self._is_over = True
        self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.cancel()
        if not self._is_over:
            return
        is_ours = self._task.uncancel() <= self._pending
        if is_ours and kind is asyncio.CancelledError:
            raise TimeoutError from error
