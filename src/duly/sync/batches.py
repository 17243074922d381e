"""Batches whose methods block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from duly.records.delivery import Accepted, DeliveryKeywords
from duly.records.target import Target
from duly.resources import Batches
from duly.services.batches import OpenBatch
from duly.services.deliveries.intake import Item
from duly.sync.blocking import Blocking, blocking
from duly.sync.handles import BlockingDeliveries, SyncHandle, sync_handle_of
from duly.sync.home import Home


class SyncBatches(Blocking):
    """Deliveries whose common end is announced by one more delivery."""

    def __init__(self, wrapped: Any, home: Home, path: str, deliveries: BlockingDeliveries) -> None:
        super().__init__(wrapped, home, path)
        self._deliveries = deliveries

    open = blocking(Batches.open)
    get = blocking(Batches.get)
    list = blocking(Batches.list)
    close = blocking(Batches.close)
    cancel = blocking(Batches.cancel)

    def deliver(
        self, id: str, target: Target, payload: Any = None, **options: Unpack[DeliveryKeywords]
    ) -> SyncHandle[Any]:
        """Accept a delivery as a member of the batch; Conflict if it is closed."""
        accepted = self._run(
            lambda: self._wrapped.deliver(id, target, payload, **options), "deliver"
        )
        return sync_handle_of(accepted, self._deliveries)


class SyncOpenBatch(Blocking):
    """A batch that a block of code fills: `with app.sync.batch(then=...) as batch:`.

    The end of the block closes it. If the block raises, the batch stays open.
    """

    def __init__(self, opened: OpenBatch, home: Home, deliveries: BlockingDeliveries) -> None:
        super().__init__(opened, home, "batch")
        self._deliveries = deliveries

    get = blocking(OpenBatch.get)
    close = blocking(OpenBatch.close)
    cancel = blocking(OpenBatch.cancel)

    @property
    def id(self) -> str:
        """Its id."""
        found: str = self._wrapped.id
        return found

    def deliver(
        self, target: Target, payload: Any = None, **options: Unpack[DeliveryKeywords]
    ) -> SyncHandle[Any]:
        """Accept a delivery as a member; the options are those of `deliver`."""
        accepted = self._run(lambda: self._wrapped.deliver(target, payload, **options), "deliver")
        return sync_handle_of(accepted, self._deliveries)

    def deliver_many(self, items: Iterable[Item]) -> Sequence[Accepted]:
        """Accept many deliveries as members in one transaction: all of them or none."""
        accepted: Sequence[Accepted] = self._run_for(
            "deliver_many", items, self._wrapped.deliver_many
        )
        return accepted
