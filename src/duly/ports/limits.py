"""The store's interface for the limits of targets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from duly.domain.endpoints.limits import DeclaredLimits, KeyLimits, LimitUse, StoredLimits


class Limits(Protocol):
    """The limits of handlers, which code declares, and of endpoints."""

    async def declare(
        self, declared: Mapping[str, DeclaredLimits], served: Sequence[str] | None, actor: str
    ) -> None:
        """Store the limits of handlers in the served namespaces, by name; the last call wins.

        A handler without limits loses those that it had. Without a difference nothing is written.
        """

    async def add(self, declared: Mapping[int, DeclaredLimits]) -> None:
        """Store limits of targets for which none were ever declared."""

    async def by_target(self, served: Sequence[str] | None) -> dict[int, DeclaredLimits]:
        """All limits of handlers and endpoints in the served namespaces, or in all."""

    async def key_limits(self, served: Sequence[str] | None) -> dict[int, KeyLimits]:
        """The limits for each key, of the targets that have such, as `by_target`."""

    async def get(self, target: str) -> StoredLimits | None:
        """The limits of one target of the namespace, None if it has none."""

    async def page(self, after: str, limit: int) -> list[StoredLimits]:
        """Targets of the namespace that have limits, by name."""

    async def use(
        self, targets: Collection[int], most: int
    ) -> tuple[dict[int, LimitUse], datetime | None]:
        """How far limits are used, and the time of the count; `most` are counted as waiting."""
