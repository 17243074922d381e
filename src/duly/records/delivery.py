"""Deliveries: what a caller may set, the confirmation, and what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypedDict, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from duly.errors import InvalidInput
from duly.records.attempt import Attempt, HistoryEntry, Step, Transition
from duly.records.recovery import Disposition
from duly.records.retry_plan import RetryPlan
from duly.records.state import State
from duly.records.stream import OnFailure
from duly.records.target import GivenTarget, HandlerTarget
from duly.records.unique import OnDuplicate, Unique

LEAST_PRIORITY, DEFAULT_PRIORITY, MOST_PRIORITY = 1, 5, 9
Moment = Annotated[datetime, Meta(tz=True)]
# Limits are only described here: the domain checks them, with the same message everywhere.
Priority = Annotated[
    int, Meta(extra_json_schema={"minimum": LEAST_PRIORITY, "maximum": MOST_PRIORITY})
]
AT_LEAST_0 = {"minimum": 0}


class DeliveryOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be set for a delivery besides its target and payload."""

    at: Moment | None = None
    after: (
        Annotated[float, Meta(extra_json_schema=AT_LEAST_0, description="seconds from now")] | None
    ) = None
    key: str | None = None
    unique: Unique | None = None
    on_duplicate: OnDuplicate | None = None
    latest: Annotated[float, Meta(extra_json_schema=AT_LEAST_0)] | None = None
    stream: str | None = None
    on_failure: OnFailure | None = None
    fair_key: str | None = None
    limit_key: str | None = None
    priority: Priority = DEFAULT_PRIORITY
    tags: list[str] = []
    expires_at: Moment | None = None
    retry: Annotated[RetryPlan | None, Meta(description="its own; otherwise its target's")] = None
    batch: str | None = None


class DeliveryKeywords(TypedDict, total=False):
    """`DeliveryOptions` as keyword arguments."""

    at: datetime | None
    after: float | timedelta | None
    key: str | None
    unique: Unique | str | None
    on_duplicate: OnDuplicate | str | None
    latest: float | timedelta | None
    stream: str | None
    on_failure: OnFailure | str | None
    fair_key: str | None
    limit_key: str | None
    priority: int
    tags: Iterable[str]
    expires_at: datetime | None
    retry: RetryPlan | None
    batch: str | None


def null() -> msgspec.Raw:
    """No payload; as a factory, since a plain default would appear in the OpenAPI document."""
    return msgspec.Raw(b"null")


class NewDelivery(DeliveryOptions, frozen=True, kw_only=True):
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


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The confirmation: the delivery is on disk."""

    id: str
    state: State = State.PENDING
    due_at: datetime
    known: Annotated[bool, Meta(description="it was already stored under its key or id")] = False


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A stored delivery; lists leave out the payload unless `payloads` asks for it."""

    id: str
    namespace: str
    target: str
    state: State
    priority: int
    attempt: int
    due_at: datetime
    accepted_at: datetime
    next_at: datetime | None = None
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    dead_at: datetime | None = None
    expires_at: datetime | None = None
    late_seconds: float | None = None
    key: str | None = None
    unique: Unique | None = None
    replaced: Annotated[
        int, Meta(description="how often a later one with its unique key replaced its contents")
    ] = 0
    replaced_at: datetime | None = None
    url: str | None = None
    fair_key: str | None = None
    limit_key: str | None = None
    batch: str | None = None
    stream: str | None = None
    position: int | None = None
    schedule: str | None = None
    scheduled_for: datetime | None = None
    merged: int = 0
    tags: list[str] = []
    retry: Annotated[RetryPlan | None, Meta(description="its own, if it has one")] = None
    reason: str | None = None
    error: str | None = None
    fingerprint: str | None = None
    crashes: int = 0
    worker: int | None = None
    progress: Annotated[float | None, Meta(description="from 0 to 1, of a running one")] = None
    progress_note: str | None = None
    progress_at: datetime | None = None
    overran_at: (
        Annotated[datetime, Meta(description="past its deadline, and cannot be stopped")] | None
    ) = None
    cancel_asked_at: (
        Annotated[datetime, Meta(description="it runs, and its worker was asked to cancel it")]
        | None
    ) = None
    disposition: Annotated[
        Disposition | None, Meta(description="of a dead letter; null if it waits for an operator")
    ] = None
    disposition_note: str | None = None
    revive_at: Annotated[datetime | None, Meta(description="when a policy retries it")] = None
    revivals: Annotated[int, Meta(description="how often policies have retried it")] = 0
    generation: Annotated[
        str | None, Meta(description="the last generation of the deployment that tried it")
    ] = None
    payload_json: msgspec.Raw | UnsetType = msgspec.field(name="payload", default=UNSET)
    """The payload as the caller gave it, byte for byte."""

    @property
    def payload(self) -> Any:
        """The payload, decoded."""
        if self.payload_json is UNSET:
            raise InvalidInput("payloads", "this list was read without them; ask for payloads=True")
        return msgspec.json.decode(self.payload_json)

    @property
    def late_by(self) -> timedelta | None:
        """How long after `due_at` the last attempt started."""
        return None if self.late_seconds is None else timedelta(seconds=self.late_seconds)


def shown_state(delivery: Delivery) -> str:
    """The state in words, with the disposition of a dead letter."""
    if delivery.disposition is None:
        return delivery.state
    return f"{delivery.state}, {delivery.disposition.replace('_', ' ')}"


class EndpointPlace(msgspec.Struct, frozen=True):
    """The endpoint that a delivery goes to; no URL once it was removed."""

    name: str
    url: str | None


class DeliveryDetail(Delivery, frozen=True, kw_only=True):
    """A delivery with its payload, its history, and what it waits for."""

    payload_json: msgspec.Raw = msgspec.field(name="payload")
    endpoint: EndpointPlace | None
    waits: Annotated[str, Meta(description="what it waits for besides its moment")] | None
    attempts_allowed: (
        Annotated[int, Meta(description="by the plan that counts; null if a handler's")] | None
    )
    result: Annotated[Any, Meta(description="what the handler returned")] = None
    attempts: list[Attempt]
    steps: list[Step]
    transitions: list[Transition]


class ExplainedDelivery(Delivery, frozen=True, kw_only=True):
    """A delivery that needs attention, and why."""

    why: str


class DeliveryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects the deliveries that match all given fields; all of them if it is empty."""

    id: Annotated[str, Meta(description="how their ids begin, at least 4 characters")] | None = None
    state: State | None = None
    target: (
        Annotated[str, Meta(description="a handler, endpoint:NAME, or https://example.org")] | None
    ) = None
    tag: str | None = None
    key: str | None = None
    stream: str | None = None
    batch: str | None = None
    schedule: str | None = None
    reason: Annotated[str, Meta(description="why it failed")] | None = None
    text: Annotated[str, Meta(description="in its error, key or payload")] | None = None
    since: Annotated[datetime, Meta(tz=True, description="accepted then or later")] | None = None
    until: Annotated[datetime, Meta(tz=True, description="accepted then or before")] | None = None
    late_over: (
        Annotated[
            str | float,
            Meta(
                description="a duration, as in 5m: the first attempt started more than that after "
                "the due time, or it still waits"
            ),
        ]
        | None
    ) = None


class DeliverySort(StrEnum):
    """An order of deliveries other than the usual one."""

    LATENESS = "lateness"


class DeliveryCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many deliveries match, by state; no count is higher than `counted_up_to`.

    Of the states in `capped` there may be more: only the newest deliveries were examined.
    """

    counted_up_to: int
    capped: list[State] = []
    states: dict[State, int] = {}


class FilterKeywords(TypedDict, total=False):
    """`DeliveryFilter` as keyword arguments."""

    id: str | None
    state: State | str | None
    target: str | HandlerTarget | None
    tag: str | None
    key: str | None
    stream: str | None
    batch: str | None
    schedule: str | None
    reason: str | None
    text: str | None
    since: datetime | None
    until: datetime | None
    late_over: float | timedelta | str | None


class PageKeywords(FilterKeywords, total=False):
    """A filter, and which part of the list: `before` is the last id of the page before.

    Usual are 50 (`limit`), with their payloads (`payloads`). With `sort="lateness"`, the most late
    come first, and `before` is the `next` of the page before.
    """

    sort: DeliverySort | str | None
    before: str | None
    limit: int
    payloads: bool


Kind = TypeVar("Kind", bound=Delivery)


def explained(delivery: Delivery, why: str) -> ExplainedDelivery:
    """The delivery with an explanation."""
    return ExplainedDelivery(**msgspec.structs.asdict(delivery), why=why)


def listed(found: Iterable[Kind], *, payloads: bool) -> list[Kind]:
    """Deliveries as a list shows them: with their payloads or without."""
    if payloads:
        return list(found)
    return [msgspec.structs.replace(each, payload_json=UNSET) for each in found]


def transitions(delivery: Delivery, history: Sequence[HistoryEntry]) -> list[Transition]:
    """All changes of its state, from its acceptance on."""
    began = Transition(at=delivery.accepted_at, after=State.PENDING, by="accepted")
    return [began, *(each.transition for each in history)]


def late_by(due_at: datetime, started_at: datetime) -> timedelta:
    """How late an attempt started; never negative."""
    return max(started_at - due_at, timedelta())
