"""Counts everything, and logs what has words."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from duly.domain import events
from duly.domain.endpoints.endpoint import endpoint_name, is_outside
from duly.domain.events import Event
from duly.domain.monitoring.rollups import NOTHING, Counts, less, plus
from duly.domain.safe_text import one_line, visible
from duly.telemetry.histograms import CALLS, LATENESS, SECONDS, SIZES, Histogram
from duly.telemetry.log_messages import LIMITED, ONLY_COUNTED, WORDING
from duly.telemetry.tallies import tally_of

logger = logging.getLogger("duly")

LINES_PER_SECOND = 50
"""For each kind of event that is limited: a backlog of a million must not fill the disk."""
MOST_TARGETS = 50
"""How many targets are counted by their names; the rest are counted together."""
URL = "url"
MOST_TRIES = 20
CALL_NAMES = ("accept", "claim", "settle")


class Telemetry:
    """What happened in this process: counts, histograms, and lines in the log.

    Called for every batch, so whatever it does is done for many at a time.
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
        """How often a loop had to wait for the store."""
        self.lateness = Histogram(LATENESS)
        self.pickups, self.runs = Histogram(SECONDS), Histogram(SECONDS)
        self.calls = {name: Histogram(CALLS) for name in CALL_NAMES}
        self.sizes = {name: Histogram(SIZES) for name in CALL_NAMES}
        self.drift = 0.0
        self.process: int | None = None
        """Which of several that share a port this one is."""
        self._elsewhere: dict[str, Counts] = {}
        """What happened in namespaces that are not the process's own."""
        self._labels: set[str] = set()
        self._worker: int | None = None
        self._trace_of = trace_of
        self._limits = {kind: LineLimit(monotonic) for kind in LIMITED}
        self._tracebacks = RepeatLimit(monotonic)
        self._takes: dict[type[Event], Callable[[Any], None]] = {
            events.BatchSettled: self._count_batch,
            events.DeliveriesAccepted: self._count_accepted,
            events.LanesClaimed: self._count_claimed,
            events.PlannerTicked: self._count_tick,
            events.SchedulesPlanned: self._count_planned,
            events.Reclaimed: self._count_reclaimed,
            events.AttemptFailed: self._count_failure,
            events.StoreWentAway: self._count_trouble,
            events.WorkerStarted: self._note_worker,
            events.WorkerStopped: self._note_stop,
        }

    def emit(self, event: Event) -> None:
        """Take note of a happening."""
        kind = type(event)
        if (take := self._takes.get(kind)) is not None:
            take(event)
        if event.namespace is not None:
            before = self._elsewhere.get(event.namespace, NOTHING)
            self._elsewhere[event.namespace] = plus(before, tally_of(event))
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
        """Whether such an event is logged now."""
        return logger.isEnabledFor(WORDING[kind][0])

    def summarize(self) -> None:
        """Log how many lines were left out since the last summary; call it once a second."""
        for kind, limit in self._limits.items():
            self._summarize(kind, limit)

    def _summarize(self, kind: type[Event], limit: LineLimit) -> None:
        if left_out := limit.take_left_out():
            self._log(LIMITED[kind](deliveries=left_out))

    def tallies(self, own: str) -> dict[str, Counts]:
        """What happened since this process began, by namespace, as the minutes are kept."""
        mine = self._all()
        for theirs in self._elsewhere.values():
            mine = less(mine, theirs)
        return {own: mine, **self._elsewhere}

    def _all(self) -> Counts:
        counts = self.counts
        return Counts(
            accepted=counts["accepted"] + counts["planned"],
            completed=counts["completed"],
            failed=counts["retried"] + counts["dead"],
            dead=counts["dead"] + counts["poisoned"],
            cancelled=counts["expired"] + counts["overlapped"],
            on_time=counts["on_time"],
            late=counts["DeliveryLate"],
            reclaimed=counts["reclaimed"],
            lateness_seconds=self.lateness.sum,
            run_seconds=self.runs.sum,
        )

    def label(self, target: str) -> str:
        """What a target is counted under: the first fifty by name, and never a URL."""
        label = label_of(target)
        if label == URL or label in self._labels:
            return label
        if len(self._labels) >= MOST_TARGETS:
            return "other"
        self._labels.add(label)
        return label

    def _log(self, event: Event) -> None:
        level, words = WORDING[type(event)]
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
            message = one_line(words.format(**_spoken(facts)))
            place = (logger.name, level, __file__, 0, message, (), None)
            record = logger.makeRecord(*place, extra=extra)
            # Where any formatter looks for the text of a traceback.
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
        counts["refused"] += batch.refused
        size = batch.completed + batch.retried + batch.dead + batch.released + batch.refused
        self._count_call("settle", size, batch.seconds)
        counts["on_time"] += batch.on_time
        for each in batch.timed:
            self._count_times(each)
        for target, many in batch.completed_by.items():
            self.completed_by[self.label(target)] += many
        for attempt, many in batch.tries.items():
            self.tries[min(attempt, MOST_TRIES)] += many

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

    def _note_worker(self, started: events.WorkerStarted) -> None:
        self._worker = started.worker

    def _note_stop(self, stopped: events.WorkerStopped) -> None:  # noqa: ARG002 - that is all
        self.summarize()

    def _count_trouble(self, trouble: events.StoreWentAway) -> None:
        self.troubles[trouble.loop] += 1


class LineLimit:
    """Admits so many lines a second, and counts those that it leaves out."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._second = self._lines = self._left_out = 0

    def begins_anew(self) -> bool:
        """Whether this is the first line of another second."""
        second = int(self._monotonic())
        is_new = second != self._second
        if is_new:
            self._second, self._lines = second, 0
        return is_new

    def admits(self) -> bool:
        """Whether there is room for one line more; counts it if not."""
        self._lines += 1
        has_room = self._lines <= LINES_PER_SECOND
        self._left_out += not has_room
        return has_room

    def take_left_out(self) -> int:
        """How many were left out since this was last asked."""
        left_out, self._left_out = self._left_out, 0
        return left_out


class RepeatLimit:
    """Admits the same text once a second."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._second = 0
        self._hashes: set[int] = set()

    def admits(self, text: str) -> bool:
        """Whether this text was not admitted in this second yet."""
        second = int(self._monotonic())
        if second != self._second:
            self._second = second
            self._hashes.clear()
        is_new = hash(text) not in self._hashes
        self._hashes.add(hash(text))
        return is_new


def _spoken(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts as a sentence has them: lists without the signs of Python."""
    return {
        name: (", ".join(map(str, each)) or "none") if isinstance(each, list) else each
        for name, each in facts.items()
    }


def label_of(target: str) -> str:
    """A target without its address: handlers and endpoints by name, all plain URLs as one."""
    return URL if is_outside(target) and endpoint_name(target) is None else target
