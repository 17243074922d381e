"""The interfaces for steps of deliveries: of the store, and of the running attempt."""

from __future__ import annotations

from typing import Protocol

import msgspec

from duly.domain.deliveries.delivery import Claimed
from duly.records.attempt import Step


class Steps(Protocol):
    """Stored steps; they are added, never changed or removed."""

    async def load(self, delivery: str) -> list[Step]:
        """The steps of one delivery in the order of completion."""

    async def record(self, claimed: Claimed, step: Step) -> Step:
        """Store a step immediately; returns the stored one, which is the first of its name.

        LeaseLost, and nothing is written, if the lane is held under another token.
        """


class StepRecorder(Protocol):
    """The steps of one attempt: those of earlier attempts, and new ones."""

    async def begin(self, name: str) -> Step | None:
        """The step if it is already done; None if the caller has to do it now."""

    def give_up(self, name: str) -> None:
        """Report that a begun step failed."""

    async def record(self, name: str, result: msgspec.Raw, *, late: bool) -> Step:
        """Record a begun step: stored when this returns, or if `late`, with the outcome."""
