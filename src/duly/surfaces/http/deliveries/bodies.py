"""Deliveries as the API takes and shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from duly.records.attempt import Attempt
from duly.records.delivery import DEFAULT_PRIORITY, Delivery
from duly.records.retry_plan import RetryPlan
from duly.records.state import State
from duly.records.stream import OnFailure
from duly.records.target import GivenTarget
from duly.services.deliveries.intake import Options
from duly.services.deliveries.waiting import EndpointPlace
from duly.surfaces.http.protocol.bodies import Moment, shown
from duly.surfaces.http.protocol.pages import Cursor, Limit, Most, Payloads


def null() -> msgspec.Raw:
    """No payload; as a factory, since a plain default would be written into the description."""
    return msgspec.Raw(b"null")


class NewDelivery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A delivery to be accepted."""

    EXAMPLE: ClassVar = {
        "target": {"url": "https://example.org/hook"},
        "payload": {"hello": "world"},
        "key": "order-17",
    }
    target: GivenTarget
    payload: Annotated[msgspec.Raw, Meta(description="any JSON; it is kept and sent as it is")] = (
        msgspec.field(default_factory=null)
    )
    at: Moment | None = None
    after: Annotated[float, Meta(ge=0, description="seconds from now")] | None = None
    key: str | None = None
    stream: str | None = None
    on_failure: OnFailure | None = None
    priority: Annotated[int, Meta(ge=1, le=9)] = DEFAULT_PRIORITY
    tags: list[str] = []
    expires_at: Moment | None = None
    retry: Annotated[RetryPlan | None, Meta(description="its own; otherwise its target's")] = None

    def options(self) -> Options:
        """All but target and payload, as `app.deliver` takes it."""
        return Options(
            at=self.at,
            after=self.after,
            key=self.key,
            priority=self.priority,
            expires_at=self.expires_at,
            tags=self.tags,
            retry=self.retry,
            stream=self.stream,
            on_failure=self.on_failure,
        )


class AcceptedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """The yes: it is on disk."""

    id: str
    state: State
    due_at: datetime
    known: Annotated[bool, Meta(description="it was there already, under its key")]


class DeliveryQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which deliveries to list."""

    id: Annotated[str, Meta(description="how their ids begin, at least 4 characters")] | None = None
    state: State | None = None
    target: (
        Annotated[str, Meta(description="a handler, endpoint:NAME, or https://example.org")] | None
    ) = None
    stream: str | None = None
    schedule: str | None = None
    tag: str | None = None
    key: str | None = None
    reason: Annotated[str, Meta(description="why it failed")] | None = None
    text: Annotated[str, Meta(description="in its error, key or payload")] | None = None
    since: Annotated[datetime, Meta(tz=True, description="accepted then or later")] | None = None
    until: Annotated[datetime, Meta(tz=True, description="accepted then or before")] | None = None
    payloads: Payloads = False
    cursor: Cursor | None = None
    limit: Limit = 50

    def wanted(self) -> dict[str, Any]:
        """As `app.page` takes it."""
        given = msgspec.structs.asdict(self)
        del given["payloads"]
        return given | {"before": given.pop("cursor")}


class LateQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """From when on it is late."""

    grace: (
        Annotated[float, Meta(ge=0, description="seconds that do not count; else the setting")]
        | None
    ) = None
    payloads: Payloads = False
    limit: Most = 50


class StuckQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """From when on it is stuck."""

    held_for: Annotated[float, Meta(ge=0, description="seconds that it may be under way")] = 300.0
    payloads: Payloads = False
    limit: Most = 50


class DeliveryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery as lists show it: all its facts, and the payload if `payloads` asks for it."""

    id: str
    namespace: str
    target: str
    state: State
    priority: int
    attempt: int
    due_at: datetime
    accepted_at: datetime
    next_at: datetime | None
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    dead_at: datetime | None
    expires_at: datetime | None
    late_seconds: float | None
    key: str | None
    url: str | None
    stream: str | None
    position: int | None
    schedule: str | None
    scheduled_for: datetime | None
    merged: int
    tags: list[str]
    retry: Annotated[RetryPlan | None, Meta(description="its own, if it has one")]
    reason: str | None
    error: str | None
    fingerprint: str | None
    crashes: int
    worker: int | None
    payload: msgspec.Raw | UnsetType = UNSET


class StuckRecord(DeliveryRecord, frozen=True, kw_only=True):
    """A delivery that will not move by itself, and why."""

    why: str


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """A move from one state to another, and what made it."""

    at: datetime
    before: State | None
    after: State
    by: str
    attempt: int
    worker: int | None


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One try, and what came of it."""

    attempt: int
    outcome: str
    worker: int | None
    started_at: datetime | None
    finished_at: datetime
    next_at: datetime | None
    reason: str | None
    error: str | None
    traceback: Annotated[str | None, Meta(description="where in a handler's code it failed")]
    answer: Any


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A step that is done."""

    name: str
    attempt: int
    done_at: datetime
    result: msgspec.Raw = msgspec.field(default_factory=null)


class DeliveryDetail(DeliveryRecord, frozen=True, kw_only=True):
    """A delivery with its payload, its history, and what it waits for."""

    payload: msgspec.Raw = msgspec.field(default_factory=null)
    endpoint: EndpointPlace | None
    waits: Annotated[str, Meta(description="what it waits for besides its moment")] | None
    attempts_allowed: (
        Annotated[int, Meta(description="by the plan that counts; null if a handler's")] | None
    )
    attempts: list[AttemptRecord]
    steps: list[StepRecord]
    transitions: list[Transition]


Record = TypeVar("Record", bound=DeliveryRecord)


def record(delivery: Delivery, kind: type[Record], *, payload: bool = True, **more: Any) -> Record:
    """A delivery as it is shown."""
    late_by = delivery.late_by
    late = None if late_by is None else late_by.total_seconds()
    more["payload"] = delivery.payload_json if payload else UNSET
    return shown(delivery, kind, late_seconds=late, **more)


def records(found: Iterable[Delivery], *, payloads: bool) -> list[DeliveryRecord]:
    """Deliveries as a list shows them."""
    return [record(each, DeliveryRecord, payload=payloads) for each in found]


def history(
    delivery: Delivery, moves: Sequence[Attempt]
) -> tuple[list[AttemptRecord], list[Transition]]:
    """Its tries, those that a dead worker cut short included, and all its moves."""
    began = Transition(
        at=delivery.accepted_at,
        before=None,
        after=State.PENDING,
        by="accepted",
        attempt=0,
        worker=None,
    )
    tries = [each for each in moves if each.started_at is not None or each.is_crash]
    return [_attempt(each) for each in tries], [began, *map(_transition, moves)]


def _attempt(found: Attempt) -> AttemptRecord:
    return shown(found, AttemptRecord)


def _transition(found: Attempt) -> Transition:
    return Transition(
        at=found.finished_at,
        before=found.before,
        after=found.after,
        by=found.outcome,
        attempt=found.attempt,
        worker=found.worker,
    )
