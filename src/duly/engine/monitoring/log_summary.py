"""Logging once a second how many lines the rate limit of the log left out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from duly.engine.loops import Pause

SECOND = Pause(1.0)


class LogSummary:
    """Without it the rest would be told with the next line of its kind, which may never come."""

    name = "log summary"

    def __init__(self, summarize: Callable[[], None]) -> None:
        self.wake = asyncio.Event()
        self._summarize = summarize

    async def tick(self) -> Pause:
        """Log what was left out since the last tick."""
        self._summarize()
        return SECOND
