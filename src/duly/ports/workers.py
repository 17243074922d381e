"""What is asked of the store about workers and their leases."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

EVERY = "*"
"""Stands for all namespaces."""


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as the store knows it."""

    id: int
    name: str
    namespace: str
    started_at: datetime
    beat_at: datetime
    lease: float
    concurrency: int
    handlers: list[str]
    namespaces: list[str]
    """Those it works for; `*` stands for all."""
    version: str
    ended_at: datetime | None = None
    ended_how: str | None = None
    draining_at: datetime | None = None
    holding: int = 0
    alive: bool = False


class Workers(Protocol):
    """The roster of worker processes and their leases."""

    async def register(
        self, name: str, lease: float, concurrency: int, handlers: Sequence[str]
    ) -> int:
        """Write a new worker row; its number is never given again."""

    async def beat(self, worker: int) -> bool:
        """Renew the lease of all that the worker holds; False when it was declared dead."""

    async def is_draining(self, worker: int) -> bool:
        """Whether the worker is to start nothing more."""

    async def drain(self, worker: int, actor: str, *, draining: bool) -> None:
        """Let a living worker start nothing more, or go on; NotFound if there is none.

        Atomic with its entry in the audit trail. The worker hears of it with its next heartbeat.
        """

    async def step_aside(self, worker: int) -> bool:
        """Stand aside for a suspect; False while one that shares a namespace does."""

    async def step_in(self, worker: int) -> None:
        """Stand aside no more; safe to repeat."""

    async def bury(self, *, survivor: int | None = None, worker: int | None = None) -> list[int]:
        """Declare dead whoever missed its lease, but never the `worker` who asks.

        With `survivor`, everyone but that worker: for a store that has one owner.
        """

    async def close_graves(self) -> None:
        """Forget dead workers that hold nothing any more."""

    async def acquit(self, worker: int, suspect_after: int) -> int:
        """Take back the crashes that were counted for a worker that lives; returns how many.

        What it still holds is handed back. Atomic, and safe to repeat. A lane with fewer crashes
        than `suspect_after` is no suspect any more.
        """

    async def end(self, worker: int) -> None:
        """The worker stopped by itself."""

    async def roster(self, limit: int = 100) -> list[WorkerRow]:
        """Workers, those alive first."""
