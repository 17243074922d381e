"""Watching an app: how it stands, what happened, what is alarming; and the loops that write it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from duly.domain import payloads
from duly.domain.alerts import Alert, Limits
from duly.domain.endpoints import endpoint
from duly.domain.errors import InvalidInput
from duly.domain.rollups import HOUR, MINUTE, Series, checked_span, filled
from duly.domain.situation import Situation
from duly.domain.webhooks import is_webhook, webhook
from duly.engine.bookkeeper import Bookkeeper
from duly.engine.supervisor import Engine
from duly.engine.watchman import Watchman
from duly.live import Live
from duly.ports import Clock, Store
from duly.settings import Settings
from duly.telemetry import Telemetry

FRESH_SECONDS = 1.0
"""How old an answer about the present may be."""
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
        return await self._store.alerts.page(before, payloads.checked_limit(limit))


class Watch:
    """What is known of an app's deliveries as a whole."""

    def __init__(
        self, store: Store, clock: Clock, telemetry: Telemetry, settings: Settings, deliver: Deliver
    ) -> None:
        self.alerts = Alerts(store)
        self.bookkeeper = Bookkeeper(store.rollups, clock, telemetry.tally)
        self.live = Live(store.rollups, self.situation, clock)
        self._store = store
        self._clock = clock
        self._telemetry = telemetry
        self._settings = settings
        self._deliver = deliver
        self._seen: Situation | None = None
        self._seen_at = float("-inf")
        self._turn = asyncio.Lock()
        self._writing: asyncio.Task[Any] | None = None

    async def situation(self) -> Situation:
        """How it stands, looked at once a second at most however many ask."""
        async with self._turn:
            if self._seen is None or self._clock.monotonic() - self._seen_at >= FRESH_SECONDS:
                grace = timedelta(seconds=self._settings.grace)
                self._seen = await self._store.situations.look(grace)
                self._seen_at = self._clock.monotonic()
            return self._seen

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

    def join(self, engine: Engine) -> Engine:
        """Let the engine run what is written beside its deliveries."""
        self.bookkeeper.worker = lambda: engine.dispatcher.lease.worker
        engine.attach(self.bookkeeper, self._watchman())
        return engine

    def _watchman(self) -> Watchman:
        limits = Limits(self._settings.alert_late, self._settings.alert_dead)
        watchman = Watchman(
            self._store, self._telemetry.emit, self.situation, self._telemetry.counts, limits
        )
        if self._settings.alert_url:
            watchman.tell = self._tell
        return watchman

    async def _tell(self, alert: Alert, word: str) -> None:
        """Hand it to the alert webhook; the key sees to it that this is done once."""
        to = self._settings.alert_url
        target = webhook(to) if is_webhook(to) else endpoint(to)
        payload = {
            "alert": alert.kind,
            "is": word,
            "subject": alert.subject,
            "detail": alert.detail,
            "namespace": self._settings.namespace,
            "raised_at": alert.raised_at,
            "cleared_at": alert.cleared_at,
        }
        await self._deliver(target, payload, key=f"duly.alert.{alert.id}.{word}")
