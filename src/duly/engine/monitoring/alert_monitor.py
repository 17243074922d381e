"""Watching the figures and raising alerts: once each, however many processes watch.

Whoever writes the row raises the alert; whoever clears the row clears it. The alert webhook is a
delivery with a key, made before it is noted that it was, so that a crash between the two sends it
once all the same.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

from duly.domain.events import AlertCleared, AlertRaised, AlertUntold
from duly.domain.monitoring import alerts
from duly.domain.monitoring.alerts import LATELY, AlertCause, AlertLimits, Watched
from duly.domain.monitoring.rollups import MINUTE, NOTHING, Span, plus
from duly.engine.loops import Pause, apart
from duly.errors import Conflict, DulyError, StoreUnavailable
from duly.ports import Emit, Store
from duly.records.alert import Alert, AlertKind
from duly.records.status import NamespaceStatus

LOOK_SECONDS = 10.0
TOLD_AT_ONCE = 20
SIGNS = {
    "ClockStepped": (AlertKind.CLOCK_JUMPED, "the clock stepped; see the log"),
    "ClockIsBehind": (AlertKind.CLOCK_JUMPED, "the clock is behind what was planned; set it"),
    "StoreWentAway": (AlertKind.STORE_ERRORS, "the store did not answer; see the log"),
    "LoopFailed": (AlertKind.STORE_ERRORS, "a loop failed and tries again; see the log"),
    "SweptUp": (AlertKind.SWEPT_UP, "the sweep put something back; see the log"),
}
"""What this process counted, and what it is a sign of."""

Tell = Callable[[Alert, str], Awaitable[None]]
Look = Callable[[], Awaitable[NamespaceStatus]]
OTHERS_AT_ONCE = 4
"""How many other namespaces are looked at each time, in turn."""


class AlertMonitor:
    """Looks every ten seconds."""

    name = "watchman"

    def __init__(
        self,
        store: Store,
        emit: Emit,
        look: Look,
        counts: Mapping[str, int],
        limits: AlertLimits,
        tell: Tell | None = None,
    ) -> None:
        """`tell` hands an alert to the alert webhook, if there is one."""
        self.wake = asyncio.Event()
        self._store = store
        self._emit = emit
        self._look = look
        self._counts = counts
        self._limits = limits
        self._tell = tell
        self._before = dict.fromkeys(SIGNS, 0)

    async def tick(self) -> Pause:
        """Look at the figures, write what changed, and tell."""
        signs = {sign: self._counts[sign] for sign in SIGNS}
        watched = await self._watched(signs)
        found = alerts.changes(watched, self._limits, await self._store.alerts.raised())
        for trouble in found.raised:
            await self._raise(trouble)
        for trouble in found.seen:
            await self._store.alerts.see(trouble)
        for alert in found.cleared:
            await self._clear(alert, watched)
        # Only now: what was seen before the store went away is raised when it is back.
        self._before = signs
        if self._tell is not None:
            await self._tell_all(self._tell)
        return Pause(LOOK_SECONDS)

    def elsewhere(self, store: Store, emit: Emit, look: Look, tell: Tell | None) -> AlertMonitor:
        """A watchman of another namespace; what this process counted is not of that one."""
        return AlertMonitor(store, emit, look, Counter(), self._limits, tell)

    async def _watched(self, signs: Mapping[str, int]) -> Watched:
        situation = await self._look()
        span = Span(situation.at - LATELY, situation.at + MINUTE, MINUTE)
        lately = NOTHING
        for each in (await self._store.rollups.series(span)).values():
            lately = plus(lately, each)
        dead = lately.dead
        if dead and self._tell is not None:
            # Those that tell of alerts, with all of the first minute: one that cannot be sent
            # would be the reason for the next, for ever.
            dead -= await self._store.alerts.died(span.since - MINUTE)
        happened = {
            kind: detail
            for sign, (kind, detail) in SIGNS.items()
            if signs[sign] > self._before[sign]
        }
        return Watched(situation=situation, dead_lately=dead, happened=happened)

    async def _raise(self, trouble: AlertCause) -> None:
        if await self._store.alerts.raise_one(trouble):
            self._emit(
                AlertRaised(kind=trouble.kind, subject=trouble.subject, detail=trouble.detail)
            )

    async def _clear(self, alert: Alert, watched: Watched) -> None:
        if await self._store.alerts.clear(alert):
            lasted = watched.situation.at - alert.raised_at
            minutes = round(lasted.total_seconds() / 60, 1)
            self._emit(AlertCleared(kind=alert.kind, subject=alert.subject, minutes=minutes))

    async def _tell_all(self, tell: Tell) -> None:
        for alert in await self._store.alerts.untold(TOLD_AT_ONCE):
            word = "raised" if alert.told == "nothing" else "cleared"
            try:
                await tell(alert, word)
            except StoreUnavailable:
                raise
            except Conflict:
                pass  # another handed it on already, in the words of that moment
            except DulyError as error:
                # An address that cannot be used will not become better by trying.
                self._emit(AlertUntold(kind=alert.kind, problem=str(error)))
            await self._store.alerts.tell(alert, word)


class Watchmen:
    """The watchman of the process's own namespace, and in turn those of the others it serves."""

    name = "watchman"

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
        """Look at the own namespace, and at a few of the others."""
        pause = await apart(self.name, None, self._emit, self._own.tick())
        names = await self._namespaces()
        due = [each for each in names if each > self._last] + [
            each for each in names if each <= self._last
        ]
        for name in due[:OTHERS_AT_ONCE]:
            if name not in self._others:
                self._others[name] = self._of(name)
            await apart(self.name, name, self._emit, self._others[name].tick())
            self._last = name
        return pause
