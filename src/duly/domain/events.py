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


class Pruned(Event, frozen=True):
    deliveries: int


class Draining(Event, frozen=True):
    running: int
    seconds: float
