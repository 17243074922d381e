"""Handles of accepted deliveries, for synchronous code."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar

from duly.records.delivery import Accepted, Delivery, DeliveryDetail
from duly.services.deliveries.handles import found_in, made_of

Result = TypeVar("Result", covariant=True)


class BlockingDeliveries(Protocol):
    """What a handle needs of the deliveries of an App or a client."""

    def get(self, id: str) -> Delivery: ...
    def wait(self, id: str, *, timeout: float | timedelta | None = None) -> DeliveryDetail: ...
    def cancel(self, id: str) -> Delivery: ...


class SyncHandle(Accepted, Generic[Result], frozen=True, kw_only=True, dict=True):
    """The confirmation of a delivery; wait with it for the end and what the handler returned."""

    def wait(self, timeout: float | timedelta | None = None) -> DeliveryDetail:
        """The delivery when it has completed.

        DeliveryFailed if it is a dead letter or was cancelled, NotEnded after `timeout` seconds;
        without one it waits for as long as it takes.
        """
        return self._deliveries.wait(self.id, timeout=timeout)

    def result(self, timeout: float | timedelta | None = None) -> Result:
        """What the handler returned, decoded by its type; it waits, and raises, like `wait`."""
        found = self.wait(timeout)
        decode: Callable[[Any], Result] | None = vars(self)["decode"]
        return found.result if decode is None else decode(found.result)

    def get(self) -> Delivery:
        """The delivery as it is now."""
        return self._deliveries.get(self.id)

    def cancel(self) -> Delivery:
        """Cancel the delivery."""
        return self._deliveries.cancel(self.id)

    @property
    def _deliveries(self) -> BlockingDeliveries:
        found: BlockingDeliveries = found_in(self)
        return found


def sync_handle_of(
    accepted: Accepted,
    deliveries: BlockingDeliveries,
    decode: Callable[[Any], Any] | None = None,
) -> SyncHandle[Any]:
    """The handle of a delivery; `decode` turns the JSON of its result into the handler's type."""
    return made_of(SyncHandle, accepted, deliveries, decode)
