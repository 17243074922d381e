"""Domain events, which telemetry turns into log lines, metrics and spans."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all events.

    `namespace` is set when the event belongs to another namespace than the worker's own.
    """

    namespace: str | None = None


class WorkerStarted(Event, frozen=True):
    worker: int
    concurrency: int
    handlers: list[str]


class WorkerStopped(Event, frozen=True):
    worker: int
    released: int
    held: int = 0
    """Deliveries that could not be stopped; they stay held until the lease expires."""


class LeaseWasLost(Event, frozen=True):
    worker: int
    running: int


class CrashesTakenBack(Event, frozen=True):
    worker: int
    crashes: int


class WorkersDeclaredDead(Event, frozen=True):
    workers: list[int]


class Reclaimed(Event, frozen=True):
    deliveries: int
    poison: int


class DeliveriesAccepted(Event, frozen=True):
    """Deliveries accepted in one commit of the acceptor or one page of the planner."""

    new: int
    known: int = 0
    seconds: float | None = None


class LanesClaimed(Event, frozen=True):
    lanes: int
    seconds: float


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """The durations of one sampled attempt, in seconds.

    `pickup` is the time from lane ready to start; `late` the time from due to start, of first
    attempts only. `weight` is the number of attempts in the batch that the sample represents.
    """

    pickup: float
    run: float
    late: float | None
    weight: int


class BatchSettled(Event, frozen=True):
    """The outcomes that one settle call wrote; `timed` is a sample of the attempts."""

    completed: int = 0
    retried: int = 0
    dead: int = 0
    released: int = 0
    expired: int = 0
    skipped: int = 0
    cancelled: int = 0
    refused: int = 0
    on_time: int = 0
    """First attempts that started within the grace period, since the last batch."""
    seconds: float | None = None
    timed: list[Timed] = []
    completed_by: dict[str, int] = {}
    """Completed deliveries by target."""
    tries: dict[int, int] = {}
    """Deliveries that ended, completed or dead, by number of attempts."""


class AttemptFailed(Event, frozen=True):
    delivery: str
    target: str
    attempt: int
    reason: str
    error: str
    again_in: float | None
    schedule: str | None = None
    stream: str | None = None
    traceback: str | None = None


class DeliveryCompleted(Event, frozen=True):
    """Emitted only if it is logged: see `wiring`."""

    delivery: str
    target: str
    attempt: int
    seconds: float | None


class DeliveryCancelled(Event, frozen=True):
    """A running delivery was cancelled, because somebody asked for it."""

    delivery: str
    target: str
    attempt: int


class HandlerOverran(Event, frozen=True):
    """A handler ran past its deadline and cannot be stopped; its lane stays held."""

    delivery: str
    target: str
    stream: str | None
    timeout: float
    in_thread: bool


class DeliveryLate(Event, frozen=True):
    delivery: str
    target: str
    schedule: str | None
    stream: str | None
    attempt: int
    due_at: datetime
    started_at: datetime
    minutes_late: float


class MoreWereLate(Event, frozen=True):
    deliveries: int


class SettleRefused(Event, frozen=True):
    delivery: str
    token: int


class SuspectRuns(Event, frozen=True):
    delivery: str
    crashes: int


class LaneSkipped(Event, frozen=True):
    lane: str
    problem: str


class PlanUnreadable(Event, frozen=True):
    delivery: str
    problem: str


class ConnectionsShort(Event, frozen=True):
    """PostgreSQL refuses more connections; the process works with fewer."""

    open: int
    wanted: int
    problem: str


class StoreUnreachable(Event, frozen=True):
    loop: str
    problem: str


class StoreReachable(Event, frozen=True):
    loop: str
    failures: int


class LoopFailed(Event, frozen=True):
    loop: str
    problem: str
    traceback: str | None = None


class LoopEnded(Event, frozen=True):
    loop: str
    problem: str


class SweptUp(Event, frozen=True):
    without_lane: int
    without_owner: int
    lane_without_delivery: int
    schedule_without_next: int


class RecoveryBegan(Event, frozen=True):
    """Late deliveries are waiting; the count includes those that this worker already runs."""

    deliveries: int
    oldest: datetime


class RecoveryGoesOn(Event, frozen=True):
    deliveries: int
    oldest: datetime
    rate: float
    seconds_left: float | None


class RecoveryEnded(Event, frozen=True):
    """No late delivery is waiting; `deliveries` were attempted by this worker since it began."""

    deliveries: int
    seconds: float


class PlannerTicked(Event, frozen=True):
    """One tick of the planner; `drift` is how many seconds the oldest due schedule had waited."""

    drift: float


class SchedulesPlanned(Event, frozen=True):
    schedules: int
    made: int
    merged: int
    skipped: int


class ScheduleUnreadable(Event, frozen=True):
    schedule: str
    problem: str


class ZoneDataChanged(Event, frozen=True):
    zone: str
    version: str
    schedules: int


class OrphansFound(Event, frozen=True):
    """Schedules that left the code of this program; `schedules` are the first of them."""

    orphans: int
    schedules: list[str]


class OrphansRemoved(Event, frozen=True):
    orphans: int
    schedules: list[str]


class ClockStepped(Event, frozen=True):
    seconds: float


class ClockIsBehind(Event, frozen=True):
    seconds: float
    planning_stops: bool


class Pruned(Event, frozen=True):
    deliveries: int


class DeadLettersRevived(Event, frozen=True):
    """Recovery policies, or a generation, retried dead letters."""

    deliveries: int
    generation: str | None = None


class DeadLettersEnded(Event, frozen=True):
    """Recovery policies held dead letters or gave them up after the last try."""

    deliveries: int


class RecoveryPoliciesDiffer(Event, frozen=True):
    """A worker with another setting `recovery_policies` works for the same namespace."""


class GenerationBegan(Event, frozen=True):
    generation: str


class GenerationWaits(Event, frozen=True):
    """Dead letters wait for other workers that have their handlers."""

    generation: str
    handlers: list[str]


class GenerationDone(Event, frozen=True):
    generation: str
    deliveries: int


class Draining(Event, frozen=True):
    running: int
    seconds: float


class CircuitOpened(Event, frozen=True):
    target: str
    failures: int
    probe_at: datetime | None


class CircuitClosed(Event, frozen=True):
    target: str


class EndpointDisabled(Event, frozen=True):
    endpoint: str
    reason: str


class AnalyticsUnreachable(Event, frozen=True):
    problem: str


class AnalyticsReachable(Event, frozen=True):
    failures: int
    lost: int


class SecretUnreadable(Event, frozen=True):
    endpoint: str
    problem: str


class StreamReleased(Event, frozen=True):
    """A failed head has blocked its stream for as long as it may."""

    stream: str
    delivery: str
    seconds: float


class BatchFinished(Event, frozen=True):
    """All members of a batch have ended."""

    batch: str
    members: int
    completed: int
    dead: int
    cancelled: int


class BatchUnsent(Event, frozen=True):
    """A batch is finished, and its completion could not be stored."""

    batch: str


class AlertRaised(Event, frozen=True):
    kind: str
    subject: str
    detail: str


class AlertCleared(Event, frozen=True):
    kind: str
    subject: str
    minutes: float


class AlertUnreported(Event, frozen=True):
    kind: str
    problem: str
