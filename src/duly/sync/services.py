"""What only an App has of the resources, with methods that block."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from duly.services.access.keys import Keys
from duly.services.batches import Batches
from duly.services.endpoints import Endpoints
from duly.services.monitoring.live import Live
from duly.services.monitoring.monitoring import Monitoring
from duly.services.schedules.schedules import Item, Schedules
from duly.services.transfer.exporting import Exporting
from duly.services.transfer.importing import Importing
from duly.sync.batches import SyncBatches
from duly.sync.blocking import Blocking, blocking, blocking_iterator
from duly.sync.home import Home
from duly.sync.resources import SyncEndpoints, SyncKeys, SyncSchedules, SyncStats


class SyncAppSchedules(SyncSchedules):
    """Rules that create deliveries."""

    declare = blocking(Schedules.declare)
    edit = blocking(Schedules.edit)
    remove = blocking(Schedules.remove)
    trigger = blocking(Schedules.trigger)
    unfinished = blocking(Schedules.unfinished)

    def create_many(self, items: Iterable[Item], *, connection: Any = None) -> None:
        """Create many schedules, all or none; Conflict if one of the names exists.

        An item is (name, rule, target, payload, options).
        """
        create_many = self._wrapped.create_many
        self._run_for("create_many", items, lambda found: create_many(found, connection=connection))


class SyncAppBatches(SyncBatches):
    """Deliveries whose common end is announced by one more delivery."""

    open = blocking(Batches.open)


class SyncAppEndpoints(SyncEndpoints):
    """Webhook receivers with a name, a secret and limits."""

    pause = blocking(Endpoints.pause)
    reseal = blocking(Endpoints.reseal)
    reseal_addresses = blocking(Endpoints.reseal_addresses)


class SyncAppKeys(SyncKeys):
    """API keys and the sessions of the dashboard."""

    bootstrap = blocking(Keys.bootstrap)
    check = blocking(Keys.check)
    any_active = blocking(Keys.any_active)
    spend = blocking(Keys.spend)
    start_session = blocking(Keys.start_session)
    check_session = blocking(Keys.check_session)
    end_session = blocking(Keys.end_session)


class SyncLive(Blocking):
    """Live counts."""

    listen = blocking_iterator(Live.listen)


class SyncAppStats(SyncStats):
    """The status and counts of the namespace."""

    def __init__(self, wrapped: Any, home: Home, path: str) -> None:
        super().__init__(wrapped, home, path)
        self.live = SyncLive(wrapped.live, home, f"{path}.live")

    namespace_status = blocking(Monitoring.namespace_status)


class SyncExporting(Blocking):
    """Exports of the namespace."""

    lines = blocking_iterator(Exporting.lines)


class SyncImporting(Blocking):
    """Imports into the namespace."""

    write = blocking_iterator(Importing.write)
