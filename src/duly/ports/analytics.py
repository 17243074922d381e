"""What is asked of the place where counts are kept for others to look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from duly.domain.monitoring.schedule_counts import Count


class AnalyticsFailure(msgspec.Struct, frozen=True):
    """Why counts were not written, or perhaps were; `unsent` ones were not."""

    problem: str
    unsent: bool


class Analytics(Protocol):
    """Counts by schedule and minute. It may be away for as long as it likes."""

    async def add(self, counts: Mapping[Count, int]) -> AnalyticsFailure | None:
        """Add to what is kept, within a few seconds; without counts, see whether it answers."""

    async def close(self) -> None:
        """Let go of it."""
