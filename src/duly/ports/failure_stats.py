"""The store's interface for failure statistics."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from duly.records.stats import FailureStats


class FailureStatsTable(Protocol):
    """Failure statistics; each reads a bounded number of rows."""

    async def stats(self, since: datetime | timedelta | float) -> FailureStats:
        """The statistics from `since` to now, by the store's clock."""
