"""Dead letters as the API finds and moves them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from duly.errors import InvalidInput
from duly.ports import Clock
from duly.records.dead_letter import BulkProgress, DeadLetterFilter, DeadLetterGroup
from duly.surfaces.http.deliveries.bodies import DeliveryRecord
from duly.surfaces.http.protocol.bodies import Moment
from duly.surfaces.http.protocol.pages import Cursor, Limit, Most, Payloads

BUDGET_SECONDS = 20.0
"""How long one call moves dead letters; whoever asks again goes on."""
Seconds = Annotated[
    float, Meta(gt=0, le=BUDGET_SECONDS, description="for how long this call may move them")
]
MOST_IDS = 10_000
GroupRecord = DeadLetterGroup


class DeadWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters: those to which all of it applies."""

    reason: str | None = None
    fingerprint: str | None = None
    target: str | None = None
    stream: str | None = None
    schedule: str | None = None
    tag: str | None = None
    text: Annotated[str, Meta(description="in its error, key or payload")] | None = None
    since: Annotated[datetime, Meta(tz=True, description="died then or later")] | None = None
    until: Annotated[datetime, Meta(tz=True, description="died then or before")] | None = None

    def filter(self) -> DeadLetterFilter:
        """As `app.dead_letters` takes it."""
        given = msgspec.structs.asdict(self)
        return DeadLetterFilter(**{name: given[name] for name in NAMES})


class GroupQuery(DeadWanted, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many groups of them."""

    limit: Most = 50


class DeadQuery(DeadWanted, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which page of them."""

    payloads: Payloads = False
    cursor: Cursor | None = None
    limit: Limit = 50


class PoisonQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many to list, and which."""

    last_attempts: Annotated[
        bool, Meta(description="also list those whose next attempt is their last")
    ] = False
    payloads: Payloads = False
    limit: Most = 50


class SuspectRecord(DeliveryRecord, frozen=True, kw_only=True):
    """A delivery that may soon be dead, and why."""

    why: str


class Which(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters to move: by their ids, by a filter, or really all of them."""

    ids: Annotated[list[str], Meta(max_length=MOST_IDS)] = []
    reason: str | None = None
    fingerprint: str | None = None
    target: str | None = None
    stream: str | None = None
    schedule: str | None = None
    tag: str | None = None
    text: str | None = None
    since: Moment | None = None
    until: Annotated[
        datetime, Meta(tz=True, description="that of an answer, to go on with the same move")
    ] | None = None  # fmt: skip
    all: Annotated[bool, Meta(description="all there are, without a filter")] = False
    seconds: Seconds = BUDGET_SECONDS
    dry_run: Annotated[bool, Meta(description="only count")] = False

    def filter(self) -> DeadLetterFilter:
        """As `app.dead_letters` takes it; refuses to mean all when it was not said."""
        given = msgspec.structs.asdict(self)
        wanted = {name: given[name] for name in NAMES}
        narrow = [name for name, value in wanted.items() if value is not None and name != "until"]
        if bool(narrow or self.ids) == self.all:
            raise InvalidInput("all", "give ids or a filter, or all: true and neither of them")
        return DeadLetterFilter(**wanted, ids=tuple(self.ids))


NAMES = tuple(name for name in DeadLetterFilter.__struct_fields__ if name != "ids")


class Retry(Which, frozen=True, kw_only=True):
    """Which to try again, and how fast."""

    EXAMPLE: ClassVar = {"reason": "timeout_exceeded", "rate": 50, "dry_run": True}
    rate: Annotated[float, Meta(gt=0, description="at most so many a second")] | None = None
    reset_attempts: Annotated[bool, Meta(description="they get all their attempts again")] = True


class Discard(Which, frozen=True, kw_only=True):
    """Which to give up, and why."""

    EXAMPLE: ClassVar = {"tag": "old", "note": "the customer has left"}
    note: str


class RetryOne(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to try one again."""

    EXAMPLE: ClassVar = {"reset_attempts": True}
    reset_attempts: Annotated[bool, Meta(description="it gets all its attempts again")] = True


class DiscardOne(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why it is given up."""

    EXAMPLE: ClassVar = {"note": "the customer has left"}
    note: str


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What it is to deliver instead."""

    EXAMPLE: ClassVar = {"payload": {"hello": "world"}}
    payload: Annotated[msgspec.Raw, Meta(description="any JSON; it is kept and sent as it is")]


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """How many there were, and how many were moved.

    A move of many stops after some seconds: while it is not `finished`, send the same again with
    `until` as it is here, and it goes on.
    """

    matching: int
    moved: int
    until: datetime | None
    finished: bool


async def carried_out(
    matching: int,
    moves: AsyncIterator[BulkProgress],
    clock: Clock,
    seconds: float,
    rate: float | None = None,
) -> Moved:
    """Move them for as long as this call may take; the wait for the next one counts.

    Cancelled, it ends after the batch that has begun, and tells how far it came.
    """
    begun, done, until, finished = clock.monotonic(), 0, None, True
    try:
        async for progress in moves:
            done, until = progress.done, progress.until
            goes_on_at = max(clock.monotonic() - begun, done / rate if rate else 0.0)
            if goes_on_at > seconds:
                finished = done >= progress.total
                break
    except asyncio.CancelledError:
        finished = False
    return Moved(matching=matching, moved=done, until=until, finished=finished)


def counted(matching: int) -> Moved:
    """What a dry run answers."""
    return Moved(matching=matching, moved=0, until=None, finished=True)
