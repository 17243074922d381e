"""Logs once a second how many lines the log's rate limit omitted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from duly.engine.loops import Pause

SECOND = Pause(1.0)


class LogSummary:
    """Without it, omitted lines would be reported with the next line of that kind, or never."""

    name = "log summary"

    def __init__(self, summarize: Callable[[], None]) -> None:
        self.wake = asyncio.Event()
        self._summarize = summarize

    async def tick(self) -> Pause:
        """Log how many lines were omitted since the last tick."""
        self._summarize()
        return SECOND
