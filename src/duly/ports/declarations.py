"""The store's interface for schedules that code declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from duly.domain.schedules.origin import Origin
from duly.domain.schedules.revisions import Revision, Unclaimed
from duly.domain.schedules.schedule import StoredSchedule
from duly.records.schedule import OrphanedSchedule


class Declarations(Protocol):
    """Which schedules code declares, and which left the code."""

    async def undeclared(self, program: str, declared: Sequence[str]) -> Mapping[str, Origin]:
        """The schedules of the program, by name, that are not in `declared` and have not left."""

    async def leave(self, program: str, names: Sequence[str]) -> None:
        """Record that the code of the program declares these no longer; safe to repeat."""

    async def orphans(
        self, after: str, limit: int, program: str | None = None
    ) -> list[OrphanedSchedule]:
        """Those that left the code and that no live worker declares, by name."""

    async def remove(
        self,
        name: str,
        decide: Callable[[StoredSchedule | None, datetime, Unclaimed], Revision | None],
        actor: str,
        detail: Mapping[str, Any] | None = None,
    ) -> bool:
        """Remove one as `decide` returns, if it is an orphan; whether it was.

        Atomic: a schedule that is declared again at the same time is kept.
        """
