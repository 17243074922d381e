"""The store's interface for the recovery of dead letters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from duly.domain.recovery import DeadLetter, Decision
from duly.records.recovery import Disposition, Generation, RecoveryPolicy


class RecoveryWork(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to do in one namespace."""

    namespace: str
    seen_at: datetime
    digest: str | None
    """That of the policies applied to its dead letters so far."""
    undecided: bool
    """Whether policies must be applied to some dead letters."""
    next_at: datetime | None
    """When the next dead letter is retried."""
    policies: list[RecoveryPolicy]
    has_generation: bool
    """Whether dead letters may wait for their try in a generation."""
    knows_own: bool
    """Whether the generation of this worker is known."""


class Recovery(Protocol):
    """Dead letters that recover by policies."""

    async def survey(
        self, served: Sequence[str] | None, generation: str | None
    ) -> Sequence[RecoveryWork]:
        """What there is to do in the served namespaces that have targets."""

    async def policies(self) -> list[RecoveryPolicy]:
        """The stored policies."""

    async def set_policy(self, policy: RecoveryPolicy, actor: str) -> None:
        """Store a policy, in place of one for the same reason and target."""

    async def remove_policy(self, reason: str, target: str | None, actor: str) -> bool:
        """Remove a stored policy; False if there is none."""

    async def forget(self, digest: str, batch: int) -> bool:
        """Let these policies be applied to a batch of dead letters again; False at the end."""

    async def undecided_targets(self, limit: int) -> dict[int, str]:
        """Targets with dead letters to which policies must be applied, by number."""

    async def undecided(self, target: int, name: str, limit: int) -> list[DeadLetter]:
        """Some of these dead letters of a target, the oldest first."""

    async def decide(self, digest: str, decisions: Sequence[Decision]) -> int:
        """Write decisions, unless other policies have been applied meanwhile.

        Returns how many were held or given up. A stream that a given up one blocked continues.
        """

    async def revive(self, rate: float, batch: int) -> int:
        """Retry those whose cool-down is over, as many as the rate allows; returns how many.

        Those of a stream return to their positions.
        """


class Generations(Protocol):
    """Generations of a deployment, in which dead letters of before get one try each."""

    async def begin(self, name: str, *, with_held: bool, actor: str | None = None) -> Generation:
        """Note a generation, if it is not known.

        One that an actor demands is begun again, with an audit entry, and is for all workers.
        """

    async def get(self, name: str) -> Generation | None:
        """One generation; None if it is not known."""

    async def latest(self, limit: int) -> list[Generation]:
        """The generations, the latest first."""

    async def open(self, own: str | None) -> list[tuple[Generation, bool]]:
        """Those that are not done and demanded or this worker's own, and whether demanded."""

    async def elsewhere(self, generation: str | None) -> set[str]:
        """The handlers of live workers that work for this namespace.

        If a generation is given, only of workers of other ones.
        """

    async def handlers(self, generation: str) -> set[str]:
        """The handlers of live workers of this generation that work for this namespace."""

    async def untried(
        self,
        generation: Generation,
        disposition: Disposition,
        waiting: Collection[str],
        limit: int,
    ) -> list[DeadLetter]:
        """Dead letters from before the generation that it has not tried.

        Targets in `waiting` are left out.
        """

    async def count_untried(
        self, generation: str, first_at: datetime | None, disposition: Disposition
    ) -> int:
        """How many of these there are; up to now without `first_at`."""

    async def revive(
        self, generation: Generation, letters: Sequence[DeadLetter], rate: float, batch: int
    ) -> int:
        """Retry some of these, as many as the rate allows, each once; returns how many."""

    async def skip(self, generation: str, ids: Sequence[str]) -> None:
        """Note that a generation does not try these."""

    async def end(self, name: str) -> None:
        """Note that all have had their try."""
