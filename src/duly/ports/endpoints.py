"""What is asked of the store about endpoints, and about the gates before targets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Protocol

import msgspec

from duly.domain.endpoints.endpoint import StoredEndpoint
from duly.domain.endpoints.gates import Gate, TargetLimits


class SeenGate(msgspec.Struct, frozen=True):
    """A gate under its lock, with what it is decided by."""

    target: int
    name: str
    state: str | None
    limits: TargetLimits
    gate: Gate
    elsewhere: int
    """Under way from other workers."""


class GateChange(msgspec.Struct, frozen=True):
    """What becomes of a gate; `in_flight` is what the worker that asks has under way from now."""

    gate: Gate
    in_flight: int | None = None
    disable: str | None = None
    """Why the endpoint behind it takes nothing any more."""


class EndpointBacklog(msgspec.Struct, frozen=True):
    """What an endpoint has on the books; `waiting` includes what is under way."""

    waiting: int
    under_way: int


class Gates(Protocol):
    """What all workers know of targets: circuits, rates, and what is under way."""

    async def revise(
        self,
        worker: int,
        targets: Collection[int],
        decide: Callable[[SeenGate, datetime], GateChange],
    ) -> dict[int, tuple[SeenGate, GateChange]]:
        """Change the gates by what `decide` makes of each; one at a time over all workers."""


class Endpoints(Protocol):
    """Named endpoints."""

    async def get(self, name: str) -> StoredEndpoint:
        """One endpoint, or NotFound."""

    async def some(self, names: Collection[str]) -> list[StoredEndpoint]:
        """Those of the names that exist."""

    async def page(self, after: str, limit: int) -> list[StoredEndpoint]:
        """Endpoints by name."""

    async def revise(
        self,
        name: str,
        decide: Callable[[StoredEndpoint | None, datetime], StoredEndpoint],
        actor: str,
        action: str,
        detail: Mapping[str, Any] | None = None,
    ) -> StoredEndpoint:
        """Create or change one by what `decide` makes of it, with its row locked."""

    async def refuse_if_scheduled(self, endpoint: StoredEndpoint) -> None:
        """Conflict when a schedule names it."""

    async def remove(
        self, name: str, actor: str, check: Callable[[StoredEndpoint], None]
    ) -> StoredEndpoint:
        """Remove one that nothing waits for and no schedule names; else Conflict.

        `check` is called with it locked, and may refuse.
        """

    async def waiting(self, target: int) -> EndpointBacklog:
        """How much is on the books for it; counted up to a million."""

    async def cancel_waiting(self, target: int, limit: int) -> int:
        """Cancel one batch of what waits and nobody holds; returns how many."""
