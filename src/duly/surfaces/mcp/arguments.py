"""The arguments of the tools; their schemas are read from these structs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from duly.records.dead_letter import DeadLetterCriteria, DeadLetterFilter
from duly.records.delivery import DeliveryFilter, DeliverySort
from duly.records.schedule import ScheduleFilter

MOST = 100
Limit = Annotated[int, Meta(ge=1, le=MOST, description="how many at most")]
Id = Annotated[str, Meta(description="the whole id of the delivery")]
Name = Annotated[str, Meta(description="its name")]
After = Annotated[str, Meta(description="`next` of the previous page")]
Payload = Annotated[bool, Meta(description="with its payload; a large one may not fit")]
Reason = Annotated[str, Meta(description="why; it is stored and shown later")]
Seconds = Annotated[float, Meta(ge=0, le=31_536_000)]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No arguments, and the base of all others: unknown ones are refused."""


class ListDeliveries(DeliveryFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which deliveries to list."""

    before: Annotated[str, Meta(description="`next` of the previous page")] | None = None
    sort: Annotated[DeliverySort, Meta(description="the most late first")] | None = None
    limit: Limit = 20


class ShowDelivery(Arguments, frozen=True, kw_only=True):
    """Which delivery, and how much of it."""

    id: Id
    attempts: Annotated[int, Meta(ge=1, le=MOST, description="how many of the latest")] = 5
    payload: Annotated[bool, Meta(description="with its payload, result and steps")] = False


class OneDelivery(Arguments, frozen=True, kw_only=True):
    """Which delivery."""

    id: Id


class ListLate(Arguments, frozen=True, kw_only=True):
    """Which late deliveries to list."""

    grace: Annotated[Seconds, Meta(description="only those later by so many seconds")] | None = None
    limit: Limit = 20


class ListStuck(Arguments, frozen=True, kw_only=True):
    """Which stuck deliveries to list."""

    held_for: Annotated[Seconds, Meta(description="also those that run for so many seconds")] = 300
    limit: Limit = 20


class ListGroups(DeadLetterCriteria, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters to group."""

    limit: Limit = 20


class RetryDeadLetters(DeadLetterFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters to retry."""

    ids: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()


class ListByName(Arguments, frozen=True, kw_only=True):
    """Which page of a list by name."""

    after: After = ""
    limit: Limit = 20


class ListSchedules(ScheduleFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which schedules to list."""

    after: After = ""
    limit: Limit = 20


class ListOutages(Arguments, frozen=True, kw_only=True):
    """Which outages to list."""

    days: Annotated[float, Meta(gt=0, le=365, description="that ended in so many last days")] = 7
    at_least: Annotated[str, Meta(description="the shortest, as in 5m")] = "5m"
    limit: Limit = 20


class ListStreams(ListByName, frozen=True, kw_only=True):
    """Which streams to list."""

    state: Annotated[str, Meta(description="blocked or paused; otherwise all")] | None = None


class ShowSchedule(Arguments, frozen=True, kw_only=True):
    """Which schedule, and how much of it."""

    name: Name
    moments: Annotated[int, Meta(ge=1, le=MOST, description="how many next moments")] = 5
    payload: Payload = False


class OneName(Arguments, frozen=True, kw_only=True):
    """Which schedule, endpoint or stream."""

    name: Name


class Pause(OneName, frozen=True, kw_only=True):
    """What to pause, and why."""

    reason: Reason | None = None


class ResumeSchedule(OneName, frozen=True, kw_only=True):
    """Which schedule to resume, and how."""

    from_pause: Annotated[
        bool, Meta(description="deliver missed occurrences by its catch-up rule")
    ] = False


class ExplainRule(Arguments, frozen=True, kw_only=True):
    """A cron expression to explain, also said in words."""

    expression: Annotated[
        str, Meta(description="as in 0 9 * * MON, every weekday at 9am or @daily")
    ]
    tz: Annotated[str, Meta(description="the time zone, as in Europe/Oslo")] = "UTC"
    calendar: (
        Annotated[str, Meta(description="the calendar whose closed days it leaves out")] | None
    ) = None
    move: Annotated[str, Meta(description="on closed days: skip, next or previous")] | None = None
    moments: Annotated[int, Meta(ge=1, le=MOST, description="how many next moments")] = 5
