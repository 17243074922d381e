"""The store's interface for endpoints, and for the gates of targets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Protocol

import msgspec

from duly.domain.endpoints.endpoint import StoredEndpoint
from duly.domain.endpoints.gates import Gate, TargetLimits


class SeenGate(msgspec.Struct, frozen=True):
    """A locked gate with the data for a decision."""

    target: int
    name: str
    state: str | None
    limits: TargetLimits
    gate: Gate
    elsewhere: int
    """Deliveries in flight on other workers."""


class GateChange(msgspec.Struct, frozen=True):
    """The new state of a gate; `in_flight` is the asking worker's new count."""

    gate: Gate
    in_flight: int | None = None
    disable: str | None = None
    """The reason to disable the endpoint, if it is to be disabled."""


class ResealedAddresses(msgspec.Struct):
    """How many addresses were sealed anew, and by host why others could not be opened."""

    schedules: int
    deliveries: int
    failed: dict[str, str]


class Addresses(Protocol):
    """The addresses of schedules and deliveries to plain URLs."""

    async def reseal(self, actor: str) -> ResealedAddresses:
        """Seal their headers with the first key; safe to stop and repeat."""


class Gates(Protocol):
    """State of targets that all workers share: circuits, rates, and deliveries in flight."""

    async def revise(
        self,
        worker: int,
        targets: Collection[int],
        decide: Callable[[SeenGate, datetime], GateChange],
    ) -> dict[int, tuple[SeenGate, GateChange]]:
        """Change each gate as `decide` returns; only one worker at a time changes a gate."""


class Endpoints(Protocol):
    """Named endpoints."""

    async def get(self, name: str) -> StoredEndpoint:
        """One endpoint, or NotFound."""

    async def some(self, names: Collection[str]) -> list[StoredEndpoint]:
        """The endpoints with these names, as far as they exist."""

    async def page(self, after: str, limit: int) -> list[StoredEndpoint]:
        """A page of endpoints, sorted by name."""

    async def revise(
        self,
        name: str,
        decide: Callable[[StoredEndpoint | None, datetime], StoredEndpoint],
        actor: str,
        action: str,
        detail: Mapping[str, Any] | None = None,
    ) -> StoredEndpoint:
        """Create or change one as `decide` returns, with its row locked."""

    async def refuse_if_scheduled(self, endpoint: StoredEndpoint) -> None:
        """Raise Conflict if a schedule uses the endpoint."""

    async def remove(
        self, name: str, actor: str, check: Callable[[StoredEndpoint], None]
    ) -> StoredEndpoint:
        """Remove one; Conflict if deliveries wait for it or a schedule uses it.

        `check` is called with the locked endpoint, and may raise.
        """

    async def waiting(self, targets: Collection[int]) -> dict[int, tuple[int, int]]:
        """How many deliveries of each target wait and are under way, counted up to a million."""

    async def cancel_waiting(self, target: int, limit: int) -> int:
        """Cancel one batch of waiting deliveries that are not claimed; returns how many."""
