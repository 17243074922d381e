"""What is asked about the steps of deliveries: of the store, and of the attempt under way."""

from __future__ import annotations

from typing import Protocol

import msgspec

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.steps import Step


class Steps(Protocol):
    """The steps that are on the books; they are added, never changed or taken back."""

    async def load(self, delivery: str) -> list[Step]:
        """The steps of one delivery in the order in which they were done."""

    async def record(self, claimed: Claimed, step: Step) -> Step:
        """Add a step at once; returns the one on the books, which is the first of its name.

        LeaseLost, and nothing is written, when its lane is held under another token.
        """


class StepRecorder(Protocol):
    """The steps of one attempt: those of earlier ones, and those that it adds."""

    async def begin(self, name: str) -> Step | None:
        """The step if it is done already; None when it is to be done now, by the caller."""

    def give_up(self, name: str) -> None:
        """What was begun was not done."""

    async def record(self, name: str, result: msgspec.Raw, *, late: bool) -> Step:
        """What was begun is done: on the books when this returns, or with the outcome if late."""
