"""Watching an app: how it stands, what happened, what is alarming; and the loops that write it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from datetime import datetime, timedelta
from typing import Any

import msgspec

from duly.domain import checks
from duly.domain.deliveries.delivery import Delivery
from duly.domain.endpoints.endpoint import endpoint
from duly.domain.endpoints.webhooks import is_webhook, webhook
from duly.domain.events import Event
from duly.domain.monitoring.alerts import KEY, Alert, AlertLimits
from duly.domain.monitoring.rollups import HOUR, MINUTE, Series, checked_span, filled
from duly.domain.monitoring.status import NamespaceStatus
from duly.engine.loops import Loop
from duly.engine.monitoring.alert_monitor import AlertMonitor, Watchmen
from duly.engine.monitoring.log_summary import LogSummary
from duly.engine.monitoring.rollup_writer import RollupWriter
from duly.engine.worker import Worker
from duly.errors import InvalidInput, StoreUnavailable
from duly.ports import Clock, Store
from duly.services.monitoring.live import Live
from duly.services.monitoring.status import Status, Top, status, top
from duly.settings import Settings
from duly.telemetry import Telemetry

FRESH_SECONDS = 1.0
"""How old an answer about the present may be."""
SOON_ENOUGH = 5.0
"""How long those wait for it who would give up on us: Prometheus does after ten seconds."""
PATIENCE_SECONDS = 0.3
"""How long whoever reads waits for what is to be written first."""

Deliver = Callable[..., Awaitable[object]]


class Alerts:
    """Alerts, for those who look after it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def raised(self) -> Sequence[Alert]:
        """Those that are the matter now, oldest first."""
        return await self._store.alerts.raised()

    async def list(self, *, before: int | None = None, limit: int = 50) -> Sequence[Alert]:
        """Also those that are over, newest first; `before` is the last id of the page before."""
        if before is not None and not 0 <= before < 2**62:
            raise InvalidInput("before", "give the id of an alert")
        return await self._store.alerts.page(before, checks.checked_limit(limit))


class Watch:
    """What is known of an app's deliveries as a whole."""

    def __init__(
        self, store: Store, clock: Clock, telemetry: Telemetry, settings: Settings, deliver: Deliver
    ) -> None:
        self.alerts = Alerts(store)
        self.bookkeeper = RollupWriter(
            lambda namespace: store.within(namespace).rollups,
            clock,
            lambda: telemetry.tallies(store.namespace),
        )
        self.live = Live(store, self.situation, clock)
        self._store = store
        self._clock = clock
        self._telemetry = telemetry
        self._settings = settings
        self._deliver = deliver
        self._seen: NamespaceStatus | None = None
        self._seen_at = float("-inf")
        self._looking: asyncio.Task[NamespaceStatus] | None = None
        self._writing: asyncio.Task[Any] | None = None

    async def situation(self, within: float | None = None) -> NamespaceStatus:
        """How it stands, looked at once a second at most however many ask.

        Whoever asks meanwhile shares the answer, or that there is none. StoreUnavailable too when
        it takes longer than `within` seconds.
        """
        if self._seen is not None and self._clock.monotonic() - self._seen_at < FRESH_SECONDS:
            return self._seen
        if self._looking is None or self._looking.done():
            # It looks for others too, so it must not take part in the transaction of this caller.
            look = self._look()
            self._looking = asyncio.get_running_loop().create_task(look, context=Context())
            self._looking.add_done_callback(_noted)
        looking = self._looking
        done, _ = await asyncio.wait((looking,), timeout=within)
        if not done:
            raise StoreUnavailable(f"the store has not answered within {within:g} s")
        return looking.result()

    async def _look(self) -> NamespaceStatus:
        found = await self._store.status.look(self._grace)
        self._seen, self._seen_at = found, self._clock.monotonic()
        return found

    async def status(self) -> Status:
        """Who works, what is late and how fast that goes down, what is planned next.

        While something is late this takes a second, in which it is seen to go down or not.
        """
        return await status(self._store, self._clock, self._grace)

    async def top(self) -> Top:
        """How it goes right now."""
        minutes = (await self.series(MINUTE)).points
        return top(await self.situation(), minutes, await self._store.workers.roster())

    async def late(self, grace: timedelta | None = None, *, limit: int = 50) -> Sequence[Delivery]:
        """What is due and not under way, longest waiting first; `grace` is the setting if None."""
        allowed = self._grace if grace is None else grace
        return await self._store.deliveries.late(allowed, checks.checked_limit(limit))

    async def stuck(
        self, held_for: timedelta, *, limit: int = 50
    ) -> Sequence[tuple[Delivery, str]]:
        """What will not move by itself, or is under way for longer than that; and why."""
        return await self._store.deliveries.stuck(held_for, checks.checked_limit(limit))

    @property
    def _grace(self) -> timedelta:
        return timedelta(seconds=self._settings.grace)

    async def series(
        self,
        since: datetime | timedelta | float = HOUR,
        until: datetime | None = None,
        step: timedelta | float = MINUTE,
    ) -> Series:
        """What happened from a moment on, or for so long before `until`, in steps of minutes.

        All workers of the namespace count; what others did shows within a second or two.
        """
        now, _ = await self._store.plans.clock()
        span = checked_span(since, until, step, now)
        await self._write_down()
        return filled(span, await self._store.rollups.series(span))

    async def _write_down(self) -> None:
        """Write what was counted here, unless it takes long: on SQLite others hold the writer."""
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self.bookkeeper.tick())
        await asyncio.wait({self._writing}, timeout=PATIENCE_SECONDS)
        if self._writing.done():
            self._writing.result()

    def loops(self, worker: Worker) -> list[Loop]:
        """What an engine runs beside its deliveries: rollups, alerts and the log's summary."""
        self.bookkeeper.worker = lambda: worker.membership.worker
        own = self._watchman()

        async def others() -> list[str]:
            found = await worker.namespaces.namespaces()
            return [each for each in found if each != self._store.namespace]

        watchmen = Watchmen(own, self._telemetry.emit, others, lambda name: self._other(own, name))
        return [self.bookkeeper, watchmen, LogSummary(self._telemetry.summarize)]

    def _other(self, own: AlertMonitor, namespace: str) -> AlertMonitor:
        """A watchman of another namespace that this process works for."""
        store = self._store.within(namespace)

        def emit(event: Event) -> None:
            self._telemetry.emit(msgspec.structs.replace(event, namespace=namespace))

        async def tell(alert: Alert, word: str) -> None:
            await self._tell(alert, word, namespace)

        async def look() -> NamespaceStatus:
            return await store.status.look(self._grace)

        return own.elsewhere(store, emit, look, tell if self._settings.alert_url else None)

    def _watchman(self) -> AlertMonitor:
        limits = AlertLimits(self._settings.alert_late, self._settings.alert_dead)
        return AlertMonitor(
            self._store,
            self._telemetry.emit,
            self.situation,
            self._telemetry.counts,
            limits,
            self._tell if self._settings.alert_url else None,
        )

    async def _tell(self, alert: Alert, word: str, namespace: str | None = None) -> None:
        """Hand it to the alert webhook; the key sees to it that this is done once."""
        to = self._settings.alert_url
        target = webhook(to) if is_webhook(to) else endpoint(to)
        payload = {
            "alert": alert.kind,
            "is": word,
            "subject": alert.subject,
            "detail": alert.detail,
            "namespace": namespace or self._settings.namespace,
            "raised_at": alert.raised_at,
            "cleared_at": alert.cleared_at,
        }
        await self._deliver(target, payload, key=f"{KEY}{alert.id}.{word}")


def _noted(looking: asyncio.Task[NamespaceStatus]) -> None:
    """Whoever asked may have given up; nobody needs to hear of that."""
    if not looking.cancelled():
        looking.exception()
