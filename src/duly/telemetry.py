"""Happenings into log lines and counts; the only place where log wording lives."""

from __future__ import annotations

import logging
from collections import Counter

import msgspec

from duly.domain import events
from duly.domain.events import Event

logger = logging.getLogger("duly")

WORDING: dict[type[Event], tuple[int, str]] = {
    events.WorkerStarted: (
        logging.INFO,
        "worker {worker} started with {concurrency} slots for {handlers}",
    ),
    events.WorkerStopped: (logging.INFO, "worker {worker} stopped, {released} handed back"),
    events.LeaseWasLost: (
        logging.WARNING,
        "worker {worker} lost its lease; its {running} running deliveries are abandoned",
    ),
    events.WorkersBuried: (logging.WARNING, "workers {workers} are dead: no heartbeat"),
    events.Reclaimed: (
        logging.WARNING,
        "{deliveries} deliveries taken back from dead workers, {poison} of them poison",
    ),
    events.AttemptFailed: (
        logging.WARNING,
        "attempt {attempt} of delivery {delivery} to {target} failed ({reason}): {error}",
    ),
    events.DeliveryLate: (
        logging.WARNING,
        "delivery {delivery} to {target} (schedule: {schedule}) was due {due_at} and started "
        "{started_at}, {minutes_late} minutes late",
    ),
    events.MoreWereLate: (logging.WARNING, "{deliveries} more deliveries were late"),
    events.SettleRefused: (
        logging.WARNING,
        "the outcome of delivery {delivery} was refused: its lane is no longer held under {token}",
    ),
    events.SuspectRuns: (
        logging.WARNING,
        "delivery {delivery} runs alone: its workers died {crashes} times",
    ),
    events.RowPassedOver: (logging.ERROR, "lane {lane} was passed over: {problem}"),
    events.PlanUnreadable: (
        logging.ERROR,
        "the retry plan of delivery {delivery} cannot be read, its handler's is taken: {problem}",
    ),
    events.StoreWentAway: (logging.ERROR, "{loop} waits: {problem}"),
    events.StoreCameBack: (logging.INFO, "{loop} goes on after {failures} failures"),
    events.LoopFailed: (logging.ERROR, "{loop} failed and will try again: {problem}"),
    events.SweptUp: (
        logging.ERROR,
        "swept up {without_lane} deliveries without a lane, {held_by_nobody} lanes held by nobody, "
        "{lane_without_delivery} lanes without a delivery, {schedule_without_next} schedules "
        "without their next occurrence; this should never be needed",
    ),
    events.RecoveryBegan: (
        logging.WARNING,
        "recovering: {deliveries} late deliveries, the oldest due {oldest}",
    ),
    events.RecoveryGoesOn: (
        logging.WARNING,
        "recovering: {deliveries} late deliveries left, the oldest due {oldest}; {rate} a second, "
        "{seconds_left} s to go",
    ),
    events.RecoveryEnded: (
        logging.INFO,
        "recovered: {deliveries} late deliveries drained in {seconds} s",
    ),
    events.SchedulesPlanned: (
        logging.DEBUG,
        "{schedules} schedules planned: {made} made, {merged} merged, {skipped} skipped",
    ),
    events.ScheduleUnreadable: (
        logging.ERROR,
        "schedule {schedule!r} is left alone, a newer version wrote it: {problem}",
    ),
    events.ZoneDataChanged: (
        logging.WARNING,
        "the data of zone {zone} changed (now {version}): {schedules} schedules computed anew",
    ),
    events.ClockStepped: (
        logging.WARNING,
        "the clock stepped by {seconds:+.0f} s; nothing is repeated, what was missed is caught up",
    ),
    events.ClockIsBehind: (
        logging.ERROR,
        "the clock is {seconds:.0f} s behind what was planned already "
        "(planning stops: {planning_stops}); set the clock",
    ),
    events.CircuitOpened: (
        logging.WARNING,
        "{target} failed {failures} times in a row: its deliveries wait, one of them tries it at "
        "{probe_at}",
    ),
    events.CircuitClosed: (logging.INFO, "{target} answers again: its deliveries go on"),
    events.EndpointDisabled: (
        logging.ERROR,
        "endpoint {endpoint} is disabled: {reason}; its deliveries wait until it is resumed",
    ),
    events.SecretUnreadable: (
        logging.ERROR,
        "the secret of endpoint {endpoint} cannot be read, its deliveries wait: {problem}",
    ),
    events.AnalyticsWentAway: (
        logging.WARNING,
        "analytics are not written, deliveries go on: {problem}",
    ),
    events.AnalyticsCameBack: (
        logging.WARNING,
        "analytics are written again after {failures} failures, {lost} counts were lost",
    ),
    events.Pruned: (logging.INFO, "{deliveries} finished deliveries removed"),
    events.Draining: (logging.INFO, "stopping: {running} deliveries get {seconds:g} s to end"),
}


LATE_LINES_PER_SECOND = 50


class Telemetry:
    """Counts everything, and logs what has words."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._late_second = self._late_lines = self._unsaid = 0

    def emit(self, event: Event) -> None:
        """Take note of a happening."""
        if isinstance(event, events.BatchSettled):
            self._count_batch(event)
            return
        self.counts[type(event).__name__] += 1
        if isinstance(event, events.DeliveryLate) and not self._worth_a_line(event):
            return
        self._log(event)

    def _worth_a_line(self, late: events.DeliveryLate) -> bool:
        """Whether to log one more late delivery: a backlog of a million must not fill the disk."""
        second = int(late.started_at.timestamp())
        if second != self._late_second:
            if self._unsaid:
                self._log(events.MoreWereLate(deliveries=self._unsaid))
            self._late_second, self._late_lines, self._unsaid = second, 0, 0
        self._late_lines += 1
        if self._late_lines > LATE_LINES_PER_SECOND:
            self._unsaid += 1
        return self._late_lines <= LATE_LINES_PER_SECOND

    def _log(self, event: Event) -> None:
        level, words = WORDING[type(event)]
        if logger.isEnabledFor(level):
            facts = msgspec.structs.asdict(event)
            logger.log(
                level, words.format(**facts), extra={"event": type(event).__name__, "facts": facts}
            )

    def _count_batch(self, batch: events.BatchSettled) -> None:
        counts = self.counts
        counts["batches"] += 1
        counts["completed"] += batch.completed
        counts["retried"] += batch.retried
        counts["dead"] += batch.dead
        counts["released"] += batch.released
        counts["expired"] += batch.expired
        counts["refused"] += batch.refused
