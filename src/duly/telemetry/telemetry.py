"""Counts events and logs those that have a log message."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from duly.domain import events
from duly.domain.endpoints.endpoint import endpoint_name, is_outside
from duly.domain.events import Event
from duly.domain.monitoring.distributions import LATENESS, SECONDS, Times
from duly.domain.monitoring.rollups import EMPTY, Tally
from duly.records.stats import Counts
from duly.safe_text import one_line, visible
from duly.telemetry.histograms import CALLS, SIZES, Histogram
from duly.telemetry.log_messages import LIMITED, ONLY_COUNTED, WORDING
from duly.telemetry.tallies import tally_of

logger = logging.getLogger("duly")

LINES_PER_SECOND = 50
"""Limit for each type of event in `LIMITED`: a backlog of a million must not fill the disk."""
MOST_TARGETS = 50
"""Number of targets with a metric label; all others are counted as `other`."""
URL = "url"
MOST_TRIES = 20
CALL_NAMES = ("accept", "claim", "settle")


class Telemetry:
    """Counts, histograms and log lines of this process.

    It is called once for each batch, not for each delivery, to keep its cost low.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        trace_of: Callable[[str], str | None] = lambda _delivery: None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: Counter[tuple[str, str]] = Counter()
        """Failed attempts by target and reason."""
        self.completed_by: Counter[str] = Counter()
        self.tries: Counter[int] = Counter()
        self.troubles: Counter[str] = Counter()
        """How often each loop had to wait for the store."""
        self.lateness = Histogram(LATENESS)
        self.pickups, self.runs = Histogram(SECONDS), Histogram(SECONDS)
        self.calls = {name: Histogram(CALLS) for name in CALL_NAMES}
        self.sizes = {name: Histogram(SIZES) for name in CALL_NAMES}
        self.drift = 0.0
        self.process: int | None = None
        """This process's number if several share one port."""
        self._by_namespace: dict[str, Tally] = {}
        """Counts of events that name another namespace than the process's own."""
        self._labels: set[str] = set()
        self._worker: int | None = None
        self._trace_of = trace_of
        self._limits = {kind: LineLimit(monotonic) for kind in LIMITED}
        self._tracebacks = RepeatLimit(monotonic)
        self._counters: dict[type[Event], Callable[[Any], None]] = {
            events.BatchSettled: self._count_batch,
            events.DeliveriesAccepted: self._count_accepted,
            events.LanesClaimed: self._count_claimed,
            events.PlannerTicked: self._count_tick,
            events.SchedulesPlanned: self._count_planned,
            events.Reclaimed: self._count_reclaimed,
            events.AttemptFailed: self._count_failure,
            events.StoreUnreachable: self._count_wait,
            events.WorkerStarted: self._set_worker,
            events.WorkerStopped: self._finish,
        }

    def emit(self, event: Event) -> None:
        """Count an event, and log it if it has a log message."""
        kind = type(event)
        if (counter := self._counters.get(kind)) is not None:
            counter(event)
        if event.namespace is not None:
            before = self._by_namespace.get(event.namespace, EMPTY)
            self._by_namespace[event.namespace] = before.plus(tally_of(event))
        if kind in ONLY_COUNTED:
            return
        self.counts[kind.__name__] += 1
        if (limit := self._limits.get(kind)) is not None:
            if limit.begins_anew():
                self._summarize(kind, limit)
            if not limit.admits():
                return
        self._log(event)

    def logs(self, kind: type[Event]) -> bool:
        """Whether events of this type are logged at the current level."""
        return logger.isEnabledFor(WORDING[kind][0])

    def summarize(self) -> None:
        """Log how many lines were omitted since the last summary; call it once a second."""
        for kind, limit in self._limits.items():
            self._summarize(kind, limit)

    def _summarize(self, kind: type[Event], limit: LineLimit) -> None:
        if omitted := limit.take_left_out():
            self._log(LIMITED[kind](deliveries=omitted))

    def tallies(self, own: str) -> dict[str, Tally]:
        """Counts since this process started, by namespace, in the form of the per-minute counts."""
        own_tally = Tally(self._total(), self._times())
        for counted in self._by_namespace.values():
            own_tally = own_tally.less(counted)
        return {own: own_tally, **self._by_namespace}

    def _times(self) -> Times:
        return Times(
            lateness=self.lateness.counts, pickup=self.pickups.counts, run=self.runs.counts
        )

    def _total(self) -> Counts:
        counts = self.counts
        return Counts(
            accepted=counts["accepted"] + counts["planned"],
            completed=counts["completed"],
            failed=counts["retried"] + counts["dead"],
            dead=counts["dead"] + counts["poisoned"],
            cancelled=counts["expired"] + counts["overlapped"] + counts["cancelled"],
            on_time=counts["on_time"],
            late=counts["DeliveryLate"],
            reclaimed=counts["reclaimed"],
            lateness_seconds=self.lateness.sum,
            run_seconds=self.runs.sum,
        )

    def label(self, target: str) -> str:
        """The metric label of a target: its name for the first fifty, never a URL."""
        label = label_of(target)
        if label == URL or label in self._labels:
            return label
        if len(self._labels) >= MOST_TARGETS:
            return "other"
        self._labels.add(label)
        return label

    def _log(self, event: Event) -> None:
        level, template = WORDING[type(event)]
        if logger.isEnabledFor(level):
            facts = {"worker": self._worker, **msgspec.structs.asdict(event)}
            traceback = facts.pop("traceback", None)
            if traceback is not None and not self._tracebacks.admits(traceback):
                traceback = None
            if facts["namespace"] is None:
                del facts["namespace"]
            if (trace := self._trace_of(facts.get("delivery", ""))) is not None:
                facts["trace"] = trace
            extra = {"event": type(event).__name__, "facts": facts}
            message = one_line(template.format(**_as_text(facts)))
            arguments = (logger.name, level, __file__, 0, message, (), None)
            record = logger.makeRecord(*arguments, extra=extra)
            # Formatters read the text of a traceback from here.
            record.exc_text = None if traceback is None else visible(traceback)
            logger.handle(record)

    def _count_batch(self, batch: events.BatchSettled) -> None:
        counts = self.counts
        counts["batches"] += 1
        counts["completed"] += batch.completed
        counts["retried"] += batch.retried
        counts["dead"] += batch.dead
        counts["released"] += batch.released
        counts["expired"] += batch.expired
        counts["overlapped"] += batch.skipped
        counts["cancelled"] += batch.cancelled
        counts["refused"] += batch.refused
        size = batch.completed + batch.retried + batch.dead + batch.released + batch.refused
        self._count_call("settle", size, batch.seconds)
        counts["on_time"] += batch.on_time
        for each in batch.timed:
            self._count_times(each)
        for target, number in batch.completed_by.items():
            self.completed_by[self.label(target)] += number
        for attempt, number in batch.tries.items():
            self.tries[min(attempt, MOST_TRIES)] += number

    def _count_times(self, timed: events.Timed) -> None:
        self.pickups.observe(timed.pickup, timed.weight)
        self.runs.observe(timed.run, timed.weight)
        if timed.late is not None:
            self.lateness.observe(timed.late, timed.weight)

    def _count_call(self, call: str, size: int, seconds: float | None) -> None:
        if seconds is not None:
            self.calls[call].observe(seconds)
            self.sizes[call].observe(size)

    def _count_accepted(self, accepted: events.DeliveriesAccepted) -> None:
        self.counts["accepted"] += accepted.new
        self.counts["known"] += accepted.known
        self._count_call("accept", accepted.new + accepted.known, accepted.seconds)

    def _count_claimed(self, claimed: events.LanesClaimed) -> None:
        self.counts["claimed"] += claimed.lanes
        self._count_call("claim", claimed.lanes, claimed.seconds)

    def _count_tick(self, tick: events.PlannerTicked) -> None:
        self.counts["planner_ticks"] += 1
        self.drift = tick.drift

    def _count_planned(self, planned: events.SchedulesPlanned) -> None:
        self.counts["planned"] += planned.made
        self.counts["merged"] += planned.merged
        self.counts["skipped"] += planned.skipped

    def _count_reclaimed(self, reclaimed: events.Reclaimed) -> None:
        self.counts["reclaimed"] += reclaimed.deliveries
        self.counts["poisoned"] += reclaimed.poison

    def _count_failure(self, failed: events.AttemptFailed) -> None:
        self.failures[self.label(failed.target), failed.reason] += 1

    def _set_worker(self, started: events.WorkerStarted) -> None:
        self._worker = started.worker

    def _finish(self, stopped: events.WorkerStopped) -> None:  # noqa: ARG002
        self.summarize()

    def _count_wait(self, trouble: events.StoreUnreachable) -> None:
        self.troubles[trouble.loop] += 1


class LineLimit:
    """Admits `LINES_PER_SECOND` lines a second, and counts the others."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._second = self._lines = self._omitted = 0

    def begins_anew(self) -> bool:
        """Whether a new second has begun since the last call; if so, reset the limit."""
        second = int(self._monotonic())
        is_new = second != self._second
        if is_new:
            self._second, self._lines = second, 0
        return is_new

    def admits(self) -> bool:
        """Whether one more line may be logged; if not, count it as omitted."""
        self._lines += 1
        has_room = self._lines <= LINES_PER_SECOND
        self._omitted += not has_room
        return has_room

    def take_left_out(self) -> int:
        """Return the number of omitted lines and reset it."""
        omitted, self._omitted = self._omitted, 0
        return omitted


class RepeatLimit:
    """Admits each text at most once a second."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._second = 0
        self._hashes: set[int] = set()

    def admits(self, text: str) -> bool:
        """Whether this text was not yet admitted in the current second."""
        second = int(self._monotonic())
        if second != self._second:
            self._second = second
            self._hashes.clear()
        is_new = hash(text) not in self._hashes
        self._hashes.add(hash(text))
        return is_new


def _as_text(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts for a log message: lists are joined by commas."""
    return {
        name: (", ".join(map(str, each)) or "none") if isinstance(each, list) else each
        for name, each in facts.items()
    }


def label_of(target: str) -> str:
    """The label of a target: the name of a handler or endpoint, `url` for any plain URL."""
    return URL if is_outside(target) and endpoint_name(target) is None else target
