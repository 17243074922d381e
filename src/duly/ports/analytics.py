"""The interface of the analytics database, which keeps counts for other systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from duly.domain.monitoring.schedule_counts import Count


class AnalyticsFailure(msgspec.Struct, frozen=True):
    """Why counts may not have been written; `unsent` if they certainly were not."""

    problem: str
    unsent: bool


class Analytics(Protocol):
    """Counts by schedule and minute; duly works without it while it is unavailable."""

    async def add(self, counts: Mapping[Count, int]) -> AnalyticsFailure | None:
        """Add the counts within a few seconds; without counts, only check that it answers."""

    async def close(self) -> None:
        """Close the connection."""
