"""The signal that there may be work to claim."""

from __future__ import annotations

import asyncio


class WorkSignal:
    """Wakes the dispatcher when work may be due or a slot is free."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.hints = 0
        """How often work was reported as due."""
        self.came_short = True
        """Whether the last claim left slots free; the next one then needs a survey."""

    def hint(self) -> None:
        """Work may be due: survey at once."""
        self.came_short = True
        self.hints += 1
        self.wake.set()

    def progress(self, still_open: bool) -> None:
        """Outcomes were written; with `still_open`, some deliveries may be due again."""
        if still_open:
            self.hint()
        else:
            self.wake.set()
