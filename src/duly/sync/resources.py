"""The resources that an App and a Client share, with methods that block.

Each method has the parameters of its coroutine in the Protocol of the resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from duly.records.batch import Then
from duly.records.delivery import Accepted
from duly.resources import (
    Alerts,
    Audit,
    DeadLetters,
    Deliveries,
    Endpoints,
    Keys,
    Limits,
    Recovery,
    Resources,
    Stats,
    Streams,
    Workers,
)
from duly.schedule_resources import Calendars, Schedules
from duly.services.deliveries.intake import Item
from duly.sync.batches import SyncBatches, SyncOpenBatch
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
    get = blocking(Schedules.get)
    list = blocking(Schedules.list)
    pause = blocking(Schedules.pause)
    resume = blocking(Schedules.resume)
    count = blocking(Schedules.count)
    remove = blocking(Schedules.remove)
    orphans = blocking(Schedules.orphans)
    remove_orphans = blocking(Schedules.remove_orphans)
    trigger = blocking(Schedules.trigger)
    preview = blocking(Schedules.preview)
    explain = blocking(Schedules.explain)
    count_backfill = blocking(Schedules.count_backfill)
    backfill = blocking_iterator(Schedules.backfill)
    pause_all = blocking_iterator(Schedules.pause_all)
    resume_all = blocking_iterator(Schedules.resume_all)


class SyncCalendars(Blocking):
    """The closed days of rules, by name."""

    set = blocking(Calendars.set)
    import_ics = blocking(Calendars.import_ics)
    get = blocking(Calendars.get)
    list = blocking(Calendars.list)
    remove = blocking(Calendars.remove)


class SyncEndpoints(Blocking):
    """Webhook receivers with a name, a secret and limits."""

    add = blocking(Endpoints.add)
    get = blocking(Endpoints.get)
    list = blocking(Endpoints.list)
    edit = blocking(Endpoints.edit)
    pause = blocking(Endpoints.pause)
    resume = blocking(Endpoints.resume)
    rotate = blocking(Endpoints.rotate)
    test = blocking(Endpoints.test)
    remove = blocking(Endpoints.remove)
    count_dead = blocking(Endpoints.count_dead)
    recover = blocking_iterator(Endpoints.recover)


class SyncLimits(Blocking):
    """Limits of handlers and endpoints, and how far they are used."""

    list = blocking(Limits.list)
    get = blocking(Limits.get)
    keys = blocking(Limits.keys)


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
    hold = blocking(DeadLetters.hold)
    release = blocking(DeadLetters.release)
    give_up = blocking(DeadLetters.give_up)
    poison_candidates = blocking(DeadLetters.poison_candidates)
    retry_all = blocking_iterator(DeadLetters.retry_all)
    discard_all = blocking_iterator(DeadLetters.discard_all)
    hold_all = blocking_iterator(DeadLetters.hold_all)
    release_all = blocking_iterator(DeadLetters.release_all)
    give_up_all = blocking_iterator(DeadLetters.give_up_all)


class SyncRecovery(Blocking):
    """How dead letters recover by themselves: policies, and generations of the deployment."""

    policies = blocking(Recovery.policies)
    set = blocking(Recovery.set)
    remove = blocking(Recovery.remove)
    generations = blocking(Recovery.generations)
    replay = blocking(Recovery.replay)


class SyncWorkers(Blocking):
    """Processes that attempt deliveries."""

    list = blocking(Workers.list)
    drain = blocking(Workers.drain)
    resume = blocking(Workers.resume)


class SyncKeys(Blocking):
    """API keys."""

    create = blocking(Keys.create)
    get = blocking(Keys.get)
    list = blocking(Keys.list)
    revoke = blocking(Keys.revoke)


class SyncAlerts(Blocking):
    """Active and past alerts."""

    raised = blocking(Alerts.raised)
    list = blocking(Alerts.list)


class SyncStats(Blocking):
    """The status and counts of the namespace."""

    __call__ = blocking(Stats.__call__)
    failures = blocking(Stats.failures)
    series = blocking(Stats.series)
    outages = blocking(Stats.outages)
    overview = blocking(Stats.overview)
    status = blocking(Stats.status)
    top = blocking(Stats.top)
    late = blocking(Stats.late)
    stuck = blocking(Stats.stuck)


class SyncAudit(Blocking):
    """Who changed what, and when."""

    list = blocking(Audit.list)


class SyncResources(Blocking):
    """All resources of a namespace, and the short forms of the most used methods."""

    def __init__(self, wrapped: Any, home: Home, path: str) -> None:
        super().__init__(wrapped, home, path)
        self.deliveries = SyncDeliveries(wrapped.deliveries, home, f"{path}.deliveries")
        self.schedules = SyncSchedules(wrapped.schedules, home, f"{path}.schedules")
        self.calendars = SyncCalendars(wrapped.calendars, home, f"{path}.calendars")
        self.endpoints = SyncEndpoints(wrapped.endpoints, home, f"{path}.endpoints")
        self.limits = SyncLimits(wrapped.limits, home, f"{path}.limits")
        self.streams = SyncStreams(wrapped.streams, home, f"{path}.streams")
        self.batches = SyncBatches(wrapped.batches, home, f"{path}.batches", self.deliveries)
        self.dead_letters = SyncDeadLetters(wrapped.dead_letters, home, f"{path}.dead_letters")
        self.recovery = SyncRecovery(wrapped.recovery, home, f"{path}.recovery")
        self.workers = SyncWorkers(wrapped.workers, home, f"{path}.workers")
        self.keys = SyncKeys(wrapped.keys, home, f"{path}.keys")
        self.alerts = SyncAlerts(wrapped.alerts, home, f"{path}.alerts")
        self.stats = SyncStats(wrapped.stats, home, f"{path}.stats")
        self.audit = SyncAudit(wrapped.audit, home, f"{path}.audit")

    get = blocking(Resources.get)
    page = blocking(Resources.page)
    attempts = blocking(Resources.attempts)
    steps = blocking(Resources.steps)
    wait = blocking(Resources.wait)
    cancel = blocking(Resources.cancel)
    retry = blocking(Resources.retry)

    def deliver_many(
        self, items: Iterable[Item], *, batch: str | None = None
    ) -> Sequence[Accepted]:
        """Accept many deliveries in one transaction: all of them or none.

        An item is `(target, payload)`, or a mapping of the arguments of `deliver`. With a `batch`,
        all of them are its members. A Client accepts up to 10,000.
        """
        accepted: Sequence[Accepted] = self._run_for(
            "deliver_many", items, partial(self._wrapped.deliver_many, batch=batch)
        )
        return accepted

    @contextmanager
    def batch(self, then: Then, *, name: str | None = None) -> Iterator[SyncOpenBatch]:
        """A batch for a block of code: `with app.sync.batch(then=("report", {})) as batch:`.

        In the block, `batch.deliver(...)` and `batch.deliver_many(...)` add members. The end of the
        block closes the batch. When all members have ended, `then` is delivered once.
        """
        block = self._within(lambda: self._wrapped.batch(then, name=name), "batch")
        with block as (_, opened):
            yield SyncOpenBatch(opened, self._home, self.deliveries)

    # Last: the name hides the type.
    list = blocking(Resources.list)
