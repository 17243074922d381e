"""The store's interface for workers and their leases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from duly.records.worker import Worker

EVERY = "*"
"""Means all namespaces."""


class Workers(Protocol):
    """Worker processes and their leases."""

    async def register(
        self,
        name: str,
        lease: float,
        concurrency: int,
        handlers: Sequence[str],
        schedules: Sequence[str] = (),
        generation: str | None = None,
    ) -> int:
        """Add a worker whose code declares these schedules; its number is never used again."""

    async def beat(self, worker: int) -> bool:
        """Renew the lease of all that the worker holds; False if it was declared dead."""

    async def is_draining(self, worker: int) -> bool:
        """Whether the worker must not start new deliveries."""

    async def drain(self, worker: int, actor: str, *, draining: bool) -> Worker:
        """Start or stop draining a live worker; NotFound if there is none.

        Atomic with its audit entry. The worker learns of it with its next heartbeat.
        """

    async def reserve_suspects(self, worker: int) -> bool:
        """Reserve the right to run a suspect; False while another worker of a namespace has it."""

    async def release_suspects(self, worker: int) -> None:
        """Give the right to run a suspect back; safe to repeat."""

    async def declare_dead(
        self, *, survivor: int | None = None, worker: int | None = None
    ) -> list[int]:
        """Declare workers with an expired lease dead, except the asking `worker`.

        With `survivor`, all workers but that one: for a store that has one owner.
        """

    async def finish_dead(self) -> None:
        """Mark dead workers that hold nothing as done, so that recovery skips them."""

    async def undo_crashes(self, worker: int, suspect_after: int) -> int:
        """Undo the crashes counted for a worker that turned out to be alive; returns how many.

        Lanes that it still holds are released. Atomic, and safe to repeat. A lane with fewer
        crashes than `suspect_after` is no longer a suspect.
        """

    async def end(self, worker: int) -> None:
        """Record that the worker stopped normally."""

    async def all(self, limit: int = 100) -> list[Worker]:
        """The workers, live ones first."""
