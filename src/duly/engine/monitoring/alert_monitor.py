"""Raises and clears alerts, once each, even if many processes watch.

The process that writes the row raises the alert, and the one that clears the row clears it. The
alert webhook is a delivery with a key, made before the row says so: a crash between the two does
not send it twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

from duly.domain.events import AlertCleared, AlertRaised, AlertUnreported
from duly.domain.monitoring import alerts
from duly.domain.monitoring.alerts import LATELY, AlertCause, AlertLimits, Watched
from duly.domain.monitoring.rollups import MINUTE, NOTHING, Span, plus
from duly.engine.loops import Pause, contained
from duly.errors import Conflict, DulyError, StoreUnavailable
from duly.ports import Emit, Store
from duly.records.alert import Alert, AlertKind
from duly.records.status import NamespaceStatus

LOOK_SECONDS = 10.0
SENT_AT_ONCE = 20
SIGNS = {
    "ClockStepped": (AlertKind.CLOCK_JUMPED, "the clock stepped; see the log"),
    "ClockIsBehind": (AlertKind.CLOCK_JUMPED, "the clock is behind what was planned; set it"),
    "StoreUnreachable": (AlertKind.STORE_ERRORS, "the store did not answer; see the log"),
    "LoopFailed": (AlertKind.STORE_ERRORS, "a loop failed and tries again; see the log"),
    "SweptUp": (AlertKind.SWEPT_UP, "the sweep put something back; see the log"),
}
"""Events counted by this process, with the alert that each one causes."""

SendAlert = Callable[[Alert, str], Awaitable[None]]
Look = Callable[[], Awaitable[NamespaceStatus]]
OTHERS_AT_ONCE = 4
"""How many other namespaces are checked each time, in turn."""


class AlertMonitor:
    """Checks one namespace every ten seconds."""

    name = "alert monitor"

    def __init__(
        self,
        store: Store,
        emit: Emit,
        look: Look,
        counts: Mapping[str, int],
        limits: AlertLimits,
        send: SendAlert | None = None,
    ) -> None:
        """`send` sends an alert to the alert webhook, if there is one."""
        self.wake = asyncio.Event()
        self._store = store
        self._emit = emit
        self._look = look
        self._counts = counts
        self._limits = limits
        self._send = send
        self._before = dict.fromkeys(SIGNS, 0)

    async def tick(self) -> Pause:
        """Read the counts, raise and clear alerts, and send them to the webhook."""
        signs = {sign: self._counts[sign] for sign in SIGNS}
        watched = await self._watched(signs)
        found = alerts.changes(watched, self._limits, await self._store.alerts.raised())
        for cause in found.raised:
            await self._raise(cause)
        for cause in found.seen:
            await self._store.alerts.see(cause)
        for alert in found.cleared:
            await self._clear(alert, watched)
        # Only now: if the store is unavailable, the signs count again at the next tick.
        self._before = signs
        if self._send is not None:
            await self._send_all(self._send)
        return Pause(LOOK_SECONDS)

    def elsewhere(
        self, store: Store, emit: Emit, look: Look, send: SendAlert | None
    ) -> AlertMonitor:
        """A monitor of another namespace, without the counts of this process."""
        return AlertMonitor(store, emit, look, Counter(), self._limits, send)

    async def _watched(self, signs: Mapping[str, int]) -> Watched:
        status = await self._look()
        span = Span(status.at - LATELY, status.at + MINUTE, MINUTE)
        lately = NOTHING
        for each in (await self._store.rollups.series(span)).values():
            lately = plus(lately, each)
        dead = lately.dead
        if dead and self._send is not None:
            # Without deliveries of alerts, in all of the first minute: an alert that cannot be
            # sent would cause the next one, for ever.
            dead -= await self._store.alerts.died(span.since - MINUTE)
        happened = {
            kind: detail
            for sign, (kind, detail) in SIGNS.items()
            if signs[sign] > self._before[sign]
        }
        return Watched(status=status, dead_lately=dead, happened=happened)

    async def _raise(self, cause: AlertCause) -> None:
        if await self._store.alerts.raise_one(cause):
            self._emit(AlertRaised(kind=cause.kind, subject=cause.subject, detail=cause.detail))

    async def _clear(self, alert: Alert, watched: Watched) -> None:
        if await self._store.alerts.clear(alert):
            lasted = watched.status.at - alert.raised_at
            minutes = round(lasted.total_seconds() / 60, 1)
            self._emit(AlertCleared(kind=alert.kind, subject=alert.subject, minutes=minutes))

    async def _send_all(self, send: SendAlert) -> None:
        for alert in await self._store.alerts.unreported(SENT_AT_ONCE):
            word = "raised" if alert.reported == "nothing" else "cleared"
            try:
                await send(alert, word)
            except StoreUnavailable:
                raise
            except Conflict:
                pass  # another process sent it already
            except DulyError as error:
                # Trying again would not help: the address is not valid.
                self._emit(AlertUnreported(kind=alert.kind, problem=str(error)))
            await self._store.alerts.mark_reported(alert, word)


class AlertMonitors:
    """The monitor of the process's own namespace, and in turn those of others it works for."""

    name = "alert monitor"

    def __init__(
        self,
        own: AlertMonitor,
        emit: Emit,
        namespaces: Callable[[], Awaitable[list[str]]],
        of: Callable[[str], AlertMonitor],
    ) -> None:
        self.wake = own.wake
        self._own = own
        self._emit = emit
        self._namespaces = namespaces
        self._of = of
        self._others: dict[str, AlertMonitor] = {}
        self._last = ""

    async def tick(self) -> Pause:
        """Check the own namespace, and a few of the others."""
        pause = await contained(self.name, None, self._emit, self._own.tick())
        names = await self._namespaces()
        due = [each for each in names if each > self._last] + [
            each for each in names if each <= self._last
        ]
        for name in due[:OTHERS_AT_ONCE]:
            if name not in self._others:
                self._others[name] = self._of(name)
            await contained(self.name, name, self._emit, self._others[name].tick())
            self._last = name
        return pause
