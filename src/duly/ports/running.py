"""The interface for what is known of running deliveries beside their lanes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from duly.records.progress import Progress


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt reported of itself."""

    delivery: str
    token: int
    progress: float | None = None
    note: str | None = None
    reported_at: datetime | None = None
    overran_at: datetime | None = None
    """When it ran past its deadline and could not be stopped."""


class RunningDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that reported something, or that somebody asked to cancel."""

    delivery: str
    namespace: str | None
    held: int | None
    """The token under which its lane is held."""
    asked_by: str | None
    is_asked: bool
    is_over: bool
    """Whether it has ended or is gone."""
    is_stale: bool
    """Whether what it reported belongs to an earlier attempt."""


class Running(Protocol):
    """Running deliveries."""

    async def ask(self, id: str, actor: str | None = None) -> bool:
        """Ask to cancel a delivery that runs; False if it does not run."""

    async def asked(self, ids: Collection[str]) -> set[str]:
        """Those of these deliveries that somebody asked to cancel."""

    async def report(self, reports: Sequence[Report]) -> None:
        """Write what attempts reported, unless they have ended."""

    async def look(self) -> list[RunningDelivery]:
        """Those of the served namespaces that were asked to cancel, or whose row can go."""

    async def clear(self) -> None:
        """Remove what belongs to deliveries or attempts that have ended."""

    async def reported(self, limit: int) -> list[Progress]:
        """The latest reports of progress in the namespace."""
