"""What is asked of the store about streams."""

from __future__ import annotations

from typing import Protocol

from duly.domain.delivery import Claimed


class Streams(Protocol):
    """Deliveries that run in order."""

    async def enlist(self, claimed: Claimed) -> bool:
        """Let a delivery join the line of its stream; False when it is no longer held."""
