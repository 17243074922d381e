"""A Client whose methods block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self, Unpack

from duly.client.schedules import Schedules
from duly.records.delivery import DeliveryKeywords
from duly.records.stats import Second
from duly.records.target import Target
from duly.sync.blocking import blocking
from duly.sync.handles import SyncHandle, sync_handle_of
from duly.sync.home import Home
from duly.sync.resources import SyncResources


class SyncClient(SyncResources):
    """A Client whose methods block; `with client.sync:` closes its connections at the end."""

    def __init__(self, wrapped: Any, home: Home, path: str = "client") -> None:
        super().__init__(wrapped, home, path)

    schedule = blocking(Schedules.declare, "schedule")

    def deliver(
        self, target: Target, payload: Any = None, **options: Unpack[DeliveryKeywords]
    ) -> SyncHandle[Any]:
        """Accept one delivery; when this returns it is on the server's disk."""
        accepted = self._run(lambda: self._wrapped.deliver(target, payload, **options), "deliver")
        return sync_handle_of(accepted, self.deliveries)

    def events(self, after: int | None = None) -> Iterator[Second]:
        """Every second from now on; with `after`, first those since that id (up to 5 minutes).

        It reconnects if the connection is lost. StoreUnavailable after a minute without an event.
        """
        return self._iterate(lambda: self._wrapped.events(after), "events")

    def close(self) -> None:
        """Close the connections."""
        self._home.close(lambda: f"await {self._path}.close()")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
