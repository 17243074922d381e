"""Reports while late deliveries are drained: how many are left, how old, and how fast."""

from __future__ import annotations

from datetime import timedelta

from duly.domain.events import RecoveryBegan, RecoveryEnded, RecoveryGoesOn
from duly.engine.loops import Pause, YieldOnce
from duly.engine.targets.directory import TargetDirectory
from duly.ports import Agenda, Clock, Emit, LateWork
from duly.records.status import BacklogStatus, draining

LOOK_SECONDS = 5.0
WHILE_RECOVERING = Pause(1.0)
REST = 50
"""A count takes long on a large backlog; it is made again after this many times as long, but for
every report."""
REPORT_SECONDS = 30.0
LOOKS = 5
"""The most reads in one tick, if claims come in between."""


class LateAttempts:
    """Counts of late deliveries attempted by this worker."""

    def __init__(self) -> None:
        self.begun = 0
        """How many were started."""
        self.running = 0
        """How many run now."""
        self.claims = 0
        """Counted when a claim begins and when it ends: odd during a claim."""

    def begin(self) -> None:
        """Count a start."""
        self.begun += 1
        self.running += 1

    def end(self) -> None:
        """Count an end."""
        self.running -= 1


class Backlog:
    """Checks regularly whether deliveries for this worker are late, and how fast they drain."""

    name = "backlog"

    def __init__(
        self,
        agenda: Agenda,
        clock: Clock,
        emit: Emit,
        directory: TargetDirectory,
        attempts: LateAttempts,
        grace: timedelta,
    ) -> None:
        # Late deliveries to a new target are reported at once.
        self.wake = directory.found_more
        self.recovering: BacklogStatus | None = None
        self._agenda = agenda
        self._clock = clock
        self._emit = emit
        self._directory = directory
        self._grace = grace
        self._attempts = attempts
        self._began: tuple[float, int] = (0.0, 0)
        self._begun_before = 0
        self._reported_at = 0.0

    async def tick(self) -> Pause:
        """Report when late work begins, goes on and ends."""
        began = self._clock.monotonic()
        late = await self._look()
        now = self._clock.monotonic()
        if late is None:
            self._end(now)
            return Pause(LOOK_SECONDS)
        if self.recovering is None:
            self._began, self._reported_at = (now, late.count), now
            running = self._attempts.running
            self._begun_before = self._attempts.begun - running
            self._emit(RecoveryBegan(deliveries=late.count + running, oldest=late.oldest))
        first_at, first_count = self._began
        drained = first_count - late.count
        self.recovering = draining(late.count, late.oldest, drained, now - first_at)
        self._report_progress(self.recovering, now)
        rest = min((now - began) * REST, REPORT_SECONDS)
        return Pause(max(WHILE_RECOVERING.seconds, rest))

    async def _look(self) -> LateWork | None:
        looks = 0
        while True:
            claims, looks = self._attempts.claims, looks + 1
            late = await self._agenda.late_work(self._grace, self._directory.names.keys())
            begins_or_ends = (late is None) is not (self.recovering is None)
            is_undisturbed = claims == self._attempts.claims and claims % 2 == 0
            if is_undisturbed or not begins_or_ends or looks == LOOKS:
                # Let what was just claimed start.
                await YieldOnce()
                return late
            # What was claimed during the read would be counted twice, or not at all.

    def _report_progress(self, recovering: BacklogStatus, now: float) -> None:
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            self._emit(
                RecoveryGoesOn(
                    deliveries=recovering.count,
                    oldest=recovering.oldest,
                    rate=recovering.rate or 0.0,
                    seconds_left=recovering.seconds_left,
                )
            )

    def _end(self, now: float) -> None:
        if self.recovering is not None:
            drained = self._attempts.begun - self._begun_before
            seconds = round(now - self._began[0], 1)
            self._emit(RecoveryEnded(deliveries=drained, seconds=seconds))
        self.recovering = None
