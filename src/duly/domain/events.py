"""What happened, as facts that telemetry turns into words and numbers."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """The root of all happenings."""


class WorkerStarted(Event, frozen=True):
    worker: int
    concurrency: int
    handlers: list[str]


class WorkerStopped(Event, frozen=True):
    worker: int
    released: int


class LeaseWasLost(Event, frozen=True):
    worker: int
    running: int


class WorkersBuried(Event, frozen=True):
    workers: list[int]


class Reclaimed(Event, frozen=True):
    deliveries: int
    poison: int


class BatchSettled(Event, frozen=True):
    completed: int
    retried: int
    dead: int
    released: int
    expired: int
    refused: int


class AttemptFailed(Event, frozen=True):
    delivery: str
    target: str
    attempt: int
    reason: str
    error: str
    again_in: float | None


class DeliveryLate(Event, frozen=True):
    delivery: str
    target: str
    schedule: str | None
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


class RowPassedOver(Event, frozen=True):
    lane: str
    problem: str


class PlanUnreadable(Event, frozen=True):
    delivery: str
    problem: str


class StoreWentAway(Event, frozen=True):
    loop: str
    problem: str


class StoreCameBack(Event, frozen=True):
    loop: str
    failures: int


class LoopFailed(Event, frozen=True):
    loop: str
    problem: str


class SweptUp(Event, frozen=True):
    without_lane: int
    held_by_nobody: int
    lane_without_delivery: int
    schedule_without_next: int


class RecoveryBegan(Event, frozen=True):
    deliveries: int
    oldest: datetime


class RecoveryGoesOn(Event, frozen=True):
    deliveries: int
    oldest: datetime
    rate: float
    seconds_left: float | None


class RecoveryEnded(Event, frozen=True):
    deliveries: int
    seconds: float


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


class ClockStepped(Event, frozen=True):
    seconds: float


class ClockIsBehind(Event, frozen=True):
    seconds: float
    planning_stops: bool


class Pruned(Event, frozen=True):
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


class AnalyticsWentAway(Event, frozen=True):
    problem: str


class AnalyticsCameBack(Event, frozen=True):
    failures: int
    lost: int


class SecretUnreadable(Event, frozen=True):
    endpoint: str
    problem: str
