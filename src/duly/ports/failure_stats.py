"""What is asked of the store about how deliveries fare."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from duly.domain.monitoring.failure_stats import FailureStats


class FailureStatsTable(Protocol):
    """Figures of failure; each reads a bounded number of rows, however many there are."""

    async def stats(self, since: datetime | timedelta | float) -> FailureStats:
        """How it stands by the store's clock, and how it fared since then."""
