"""The resources of an App whose methods block; each has the parameters of its coroutine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from duly.resources import Schedules as ScheduleMethods
from duly.services.access.audit import Audit
from duly.services.access.keys import Keys
from duly.services.dead_letters import DeadLetters
from duly.services.deliveries.deliveries import Deliveries
from duly.services.endpoints import Endpoints
from duly.services.monitoring.alerts import Alerts
from duly.services.monitoring.live import Live
from duly.services.monitoring.monitoring import Monitoring
from duly.services.schedules.schedules import Item, Schedules
from duly.services.streams import Streams
from duly.services.transfer.exporting import Exporting
from duly.services.transfer.importing import Importing
from duly.services.workers import Workers
from duly.sync.blocking import Blocking, blocking, blocking_iterator
from duly.sync.home import Home


class SyncDeliveries(Blocking):
    """Deliveries that were accepted."""

    get = blocking(Deliveries.get)
    detail = blocking(Deliveries.detail)
    list = blocking(Deliveries.list)
    page = blocking(Deliveries.page)
    attempts = blocking(Deliveries.attempts)
    history = blocking(Deliveries.history)
    steps = blocking(Deliveries.steps)
    wait = blocking(Deliveries.wait)
    cancel = blocking(Deliveries.cancel)
    retry = blocking(Deliveries.retry)
    count = blocking(Deliveries.count)
    counts = blocking(Deliveries.counts)
    cancel_all = blocking_iterator(Deliveries.cancel_all)
    retry_all = blocking_iterator(Deliveries.retry_all)


class SyncSchedules(Blocking):
    """Rules that create deliveries."""

    declare = blocking(Schedules.declare)
    edit = blocking(Schedules.edit)
    get = blocking(Schedules.get)
    list = blocking(Schedules.list)
    pause = blocking(Schedules.pause)
    resume = blocking(Schedules.resume)
    remove = blocking(Schedules.remove)
    orphans = blocking(ScheduleMethods.orphans)
    remove_orphans = blocking(ScheduleMethods.remove_orphans)
    trigger = blocking(Schedules.trigger)
    preview = blocking(Schedules.preview)
    unfinished = blocking(Schedules.unfinished)
    count = blocking(ScheduleMethods.count)
    count_backfill = blocking(ScheduleMethods.count_backfill)
    backfill = blocking_iterator(ScheduleMethods.backfill)
    pause_all = blocking_iterator(ScheduleMethods.pause_all)
    resume_all = blocking_iterator(ScheduleMethods.resume_all)

    def create_many(self, items: Iterable[Item], *, connection: Any = None) -> None:
        """Create many schedules, all or none; Conflict if one of the names exists.

        An item is (name, rule, target, payload, options).
        """
        self._run_with("create_many", items, connection=connection)


class SyncEndpoints(Blocking):
    """Webhook receivers with a name, a secret and limits."""

    add = blocking(Endpoints.add)
    get = blocking(Endpoints.get)
    list = blocking(Endpoints.list)
    edit = blocking(Endpoints.edit)
    pause = blocking(Endpoints.pause)
    resume = blocking(Endpoints.resume)
    rotate = blocking(Endpoints.rotate)
    reseal = blocking(Endpoints.reseal)
    reseal_addresses = blocking(Endpoints.reseal_addresses)
    test = blocking(Endpoints.test)
    remove = blocking(Endpoints.remove)
    count_dead = blocking(Endpoints.count_dead)
    recover = blocking_iterator(Endpoints.recover)


class SyncStreams(Blocking):
    """Keys whose deliveries run in order."""

    get = blocking(Streams.get)
    list = blocking(Streams.list)
    configure = blocking(Streams.configure)
    pause = blocking(Streams.pause)
    resume = blocking(Streams.resume)
    retry_now = blocking(Streams.retry_now)
    release = blocking(Streams.release)
    release_delivery = blocking(Streams.release_delivery)
    cancel_head = blocking(Streams.cancel_head)
    dead_letter_head = blocking(Streams.dead_letter_head)


class SyncDeadLetters(Blocking):
    """Deliveries that will not be tried again by themselves."""

    list = blocking(DeadLetters.list)
    page = blocking(DeadLetters.page)
    groups = blocking(DeadLetters.groups)
    count = blocking(DeadLetters.count)
    retry = blocking(DeadLetters.retry)
    edit = blocking(DeadLetters.edit)
    discard = blocking(DeadLetters.discard)
    poison_candidates = blocking(DeadLetters.poison_candidates)
    retry_all = blocking_iterator(DeadLetters.retry_all)
    discard_all = blocking_iterator(DeadLetters.discard_all)


class SyncWorkers(Blocking):
    """Processes that attempt deliveries."""

    list = blocking(Workers.list)
    drain = blocking(Workers.drain)
    resume = blocking(Workers.resume)


class SyncKeys(Blocking):
    """API keys and the sessions of the dashboard."""

    create = blocking(Keys.create)
    bootstrap = blocking(Keys.bootstrap)
    get = blocking(Keys.get)
    list = blocking(Keys.list)
    revoke = blocking(Keys.revoke)
    check = blocking(Keys.check)
    any_active = blocking(Keys.any_active)
    spend = blocking(Keys.spend)
    start_session = blocking(Keys.start_session)
    check_session = blocking(Keys.check_session)
    end_session = blocking(Keys.end_session)


class SyncAlerts(Blocking):
    """Active and past alerts."""

    raised = blocking(Alerts.raised)
    list = blocking(Alerts.list)


class SyncLive(Blocking):
    """Live counts."""

    listen = blocking_iterator(Live.listen)


class SyncStats(Blocking):
    """The status and counts of the namespace."""

    def __init__(self, wrapped: Any, home: Home, path: str) -> None:
        super().__init__(wrapped, home, path)
        self.live = SyncLive(wrapped.live, home, f"{path}.live")

    __call__ = blocking(Monitoring.__call__)
    failures = blocking(Monitoring.failures)
    series = blocking(Monitoring.series)
    overview = blocking(Monitoring.overview)
    namespace_status = blocking(Monitoring.namespace_status)
    status = blocking(Monitoring.status)
    top = blocking(Monitoring.top)
    late = blocking(Monitoring.late)
    stuck = blocking(Monitoring.stuck)


class SyncAudit(Blocking):
    """Who changed what, and when."""

    list = blocking(Audit.list)


class SyncExporting(Blocking):
    """Exports of the namespace."""

    lines = blocking_iterator(Exporting.lines)


class SyncImporting(Blocking):
    """Imports into the namespace."""

    write = blocking_iterator(Importing.write)
