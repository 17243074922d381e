"""Tools that read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from duly.domain.schedules.rule_spec import explained, rule_of
from duly.domain.schedules.upcoming import upcoming_runs
from duly.domain.time.rules import cron
from duly.errors import NotFound
from duly.records.dead_letter import DeadLetterFilter, DeadLetterGroup
from duly.records.delivery import Delivery, DeliveryDetail, ExplainedDelivery
from duly.records.endpoint import Endpoint
from duly.records.outage import OutageReport
from duly.records.page import Page
from duly.records.schedule import RuleExplanation, RuleSpec, ScheduleSummary
from duly.records.status import Status
from duly.records.stream import Stream
from duly.surfaces.mcp.arguments import (
    Arguments,
    ExplainRule,
    ListByName,
    ListDeliveries,
    ListGroups,
    ListLate,
    ListOutages,
    ListSchedules,
    ListStreams,
    ListStuck,
    OneDelivery,
    OneName,
    ShowDelivery,
    ShowSchedule,
)
from duly.surfaces.mcp.results import (
    ExplainedPlace,
    ShownSchedule,
    page_by_name,
    recent,
    without_credentials,
    without_payload,
)
from duly.surfaces.mcp.tool import Backend, look

Record = TypeVar("Record")


@look
async def status(app: Backend, _given: Arguments) -> Status:
    """Workers, pending, processing, dead and late deliveries, and the next planned moment."""
    return await app.stats.status()


@look
async def list_deliveries(app: Backend, given: ListDeliveries) -> Page[Delivery]:
    """List deliveries that match all given filters, newest or most late first, without payloads.

    If `next` is not null there may be more: give it as `before`. A page may be short.
    """
    return await app.deliveries.page(**_fields(given), payloads=False)


@look
async def show_delivery(app: Backend, given: ShowDelivery) -> DeliveryDetail:
    """Show one delivery with its latest attempts and state changes, and what it waits for."""
    found = await app.deliveries.detail(given.id)
    return recent(found, given.attempts, payload=given.payload)


@look
async def explain_delivery(app: Backend, given: OneDelivery) -> ExplainedPlace:
    """Why a delivery is in its state: what it waits for, its last attempt, stream and endpoint."""
    found = await app.deliveries.detail(given.id)
    place = None if found.endpoint is None else found.endpoint.name
    endpoint = await _found(app.endpoints.get, place)
    return ExplainedPlace(
        delivery=recent(found, 1, payload=False),
        stream=await _found(app.streams.get, found.stream),
        endpoint=None if endpoint is None else without_credentials(endpoint),
    )


@look
async def list_late(app: Backend, given: ListLate) -> Page[Delivery]:
    """List deliveries that are due and not claimed, longest waiting first."""
    grace = None if given.grace is None else timedelta(seconds=given.grace)
    found = await app.stats.late(grace, limit=given.limit, payloads=False)
    return Page(list(found), None)


@look
async def list_outages(app: Backend, given: ListOutages) -> OutageReport:
    """List spans in which nothing was attempted although deliveries were due, latest first."""
    since = timedelta(days=given.days)
    return await app.stats.outages(since, at_least=given.at_least, limit=given.limit)


@look
async def list_stuck(app: Backend, given: ListStuck) -> Page[ExplainedDelivery]:
    """List deliveries that need an intervention, and why."""
    held_for = timedelta(seconds=given.held_for)
    found = await app.stats.stuck(held_for, limit=given.limit, payloads=False)
    return Page(list(found), None)


@look
async def list_dead_letter_groups(app: Backend, given: ListGroups) -> Page[DeadLetterGroup]:
    """Dead letters by fingerprint, the largest group first.

    `text` is searched in error, payload and key; `since` and `until` refer to when they died.
    `list_deliveries` with state `dead` lists them one by one.
    """
    criteria = _fields(given)
    limit = criteria.pop("limit")
    found = await app.dead_letters.groups(DeadLetterFilter(**criteria), limit=limit)
    return Page(list(found), None)


@look
async def list_schedules(app: Backend, given: ListSchedules) -> Page[ScheduleSummary]:
    """List schedules by name. If `next` is not null there are more: give it as `after`."""
    found = await app.schedules.list(**_fields(given) | {"limit": given.limit + 1})
    return page_by_name(found, given.limit)


@look
async def show_schedule(app: Backend, given: ShowSchedule) -> ShownSchedule:
    """Show one schedule with its options, its progress and its next moments."""
    schedule = await app.schedules.get(given.name)
    upcoming = await app.schedules.preview(given.name, given.moments)
    shown = schedule if given.payload else without_payload(schedule)
    return ShownSchedule(schedule=shown, next=list(upcoming))


@look
async def explain_rule(app: Backend, given: ExplainRule) -> RuleExplanation:
    """Explain a cron expression: its meaning, what clock changes do to it, its next moments."""
    if given.calendar is not None or given.move is not None:
        named = {name: getattr(given, name) for name in ("tz", "calendar", "move")}
        spec = RuleSpec(cron=given.expression, **named)
        return await app.schedules.explain(rule_of(spec), given.moments)
    rule = cron(given.expression, given.tz)
    moments = rule.preview(given.moments, after=app.clock.now())
    return explained(rule, upcoming_runs(rule, moments, given.tz))


@look
async def list_streams(app: Backend, given: ListStreams) -> Page[Stream]:
    """List streams by name with their heads. If `next` is not null, give it as `after`."""
    found = await app.streams.list(given.state, after=given.after, limit=given.limit + 1)
    return page_by_name(found, given.limit)


@look
async def show_stream(app: Backend, given: OneName) -> Stream:
    """Show one stream: its state and head, how many wait, and what to do."""
    return await app.streams.get(given.name)


@look
async def list_endpoints(app: Backend, given: ListByName) -> Page[Endpoint]:
    """List endpoints by name, with their circuits. If `next` is not null, give it as `after`."""
    found = await app.endpoints.list(after=given.after, limit=given.limit + 1)
    return page_by_name(found, given.limit)


@look
async def show_endpoint(app: Backend, given: OneName) -> Endpoint:
    """Show one endpoint: its state and circuit, and how many deliveries wait for it."""
    return without_credentials(await app.endpoints.get(given.name))


async def _found(get: Callable[[str], Awaitable[Record]], name: str | None) -> Record | None:
    """The record of that name; None without a name, or if it was removed."""
    try:
        return None if name is None else await get(name)
    except NotFound:
        return None


def _fields(given: msgspec.Struct) -> dict[str, Any]:
    return msgspec.structs.asdict(given)


LOOKING = (
    *(
        status,
        list_deliveries,
        show_delivery,
        explain_delivery,
        list_late,
        list_stuck,
        list_outages,
    ),
    *(list_dead_letter_groups, list_schedules, show_schedule, explain_rule),
    *(list_streams, show_stream, list_endpoints, show_endpoint),
)
