"""Batches: deliveries whose common end is announced by one more delivery."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from duly.records.delivery import NewDelivery
from duly.records.target import Target

Then = Target | tuple[Target, Any] | Mapping[str, Any]
"""What is delivered when a batch has finished: a target, `(target, payload)`, or a mapping of the
arguments of `deliver`."""


class BatchState(StrEnum):
    """The state of a batch."""

    OPEN = "open"
    """It takes members."""
    CLOSED = "closed"
    """It takes no more members, and some of them have not ended."""
    FINISHED = "finished"
    """All members have ended, and the completion was sent."""
    CANCELLED = "cancelled"
    """Its waiting members were cancelled, and no completion is sent."""


class NewBatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A batch to be opened."""

    EXAMPLE: ClassVar = {
        "name": "november",
        "then": {"target": {"url": "https://example.org/done"}, "payload": {"month": 11}},
    }
    then: Annotated[
        NewDelivery,
        Meta(
            description="delivered once, when all members have ended; "
            "its payload is an object, to which the counts are added as `batch`"
        ),
    ]
    name: str | None = None


class BatchOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a completion says of its batch: the field `batch` of its payload."""

    id: str
    name: str | None
    members: int
    completed: int
    dead: int
    cancelled: int
    opened_at: datetime
    closed_at: datetime
    finished_at: datetime


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch and the progress of its members.

    A large batch that has not finished is counted by workers every few seconds; then `counted_at`
    is the moment of these counts. Otherwise they are current.
    """

    id: str
    name: str | None
    state: BatchState
    then: Annotated[str, Meta(description="the target of its completion")]
    members: int
    waiting: int
    processing: int
    completed: int
    dead: int
    cancelled: int
    opened_at: datetime
    closed_at: datetime | None = None
    cancelled_at: datetime | None = None
    finished_at: datetime | None = None
    counted_at: Annotated[datetime | None, Meta(description="null if the counts are current")] = (
        None
    )
    completion: Annotated[
        str | None, Meta(description="the delivery that was sent when it finished")
    ] = None
    problem: Annotated[str | None, Meta(description="why no completion was sent")] = None
