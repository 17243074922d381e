"""The signal that there may be something to claim."""

from __future__ import annotations

import asyncio


class WorkSignal:
    """Wakes the dispatcher: because work may be due, or because a slot is free again."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.hints = 0
        """How many times work was reported as due."""
        self.came_short = True
        """Whether the last claim left slots free, so that the next one needs a survey first."""

    def hint(self) -> None:
        """Work may be due: survey at once."""
        self.came_short = True
        self.hints += 1
        self.wake.set()

    def progress(self, still_open: bool) -> None:
        """Outcomes were written; those that are still open may be due again."""
        if still_open:
            self.hint()
        else:
            self.wake.set()
