"""Tools that change something; none of them deletes, discards or cancels."""

from __future__ import annotations

import msgspec

from duly.errors import InvalidInput
from duly.records.dead_letter import BulkResult, DeadLetterFilter
from duly.records.delivery import Delivery
from duly.records.endpoint import Endpoint
from duly.records.schedule import Schedule, Triggered
from duly.records.stream import Stream
from duly.surfaces.mcp.arguments import (
    OneDelivery,
    OneName,
    Pause,
    ResumeSchedule,
    RetryDeadLetters,
)
from duly.surfaces.mcp.results import without_credentials, without_payload
from duly.surfaces.mcp.tool import Backend, act

MOST_RETRIED = 1000


@act
async def retry_dead_letter(app: Backend, given: OneDelivery) -> Delivery:
    """Retry one dead letter with all its attempts, at its position in its stream."""
    return without_payload(await app.dead_letters.retry(given.id))


@act
async def retry_dead_letters(app: Backend, given: RetryDeadLetters) -> BulkResult:
    """Retry the dead letters that match all given filters, at most 1000.

    If more match, none is retried: narrow the filter.
    """
    if given.is_all:
        raise InvalidInput("arguments", "give ids or a filter; all dead letters is too many")
    until = app.clock.now() if given.until is None else given.until
    # With a fixed end: what dies after the count is not retried.
    chosen = DeadLetterFilter(**msgspec.structs.asdict(given) | {"until": until})
    matching = await app.dead_letters.count(chosen)
    if matching > MOST_RETRIED:
        raise InvalidInput(
            "arguments", f"{matching} dead letters match, and {MOST_RETRIED} may; narrow the filter"
        )
    moved = 0
    async for progress in app.dead_letters.retry_all(chosen):
        moved = progress.done
    return BulkResult(matching=matching, moved=moved, until=until)


@act
async def trigger_schedule(app: Backend, given: OneName) -> Triggered:
    """Create one extra delivery of a schedule now; returns its id."""
    return Triggered(await app.schedules.trigger(given.name))


@act
async def pause_schedule(app: Backend, given: Pause) -> Schedule:
    """Let a schedule create no deliveries until it is resumed; running attempts continue."""
    return without_payload(await app.schedules.pause(given.name, given.reason))


@act
async def resume_schedule(app: Backend, given: ResumeSchedule) -> Schedule:
    """Let a paused schedule continue from now; occurrences missed meanwhile are skipped."""
    resumed = await app.schedules.resume(given.name, from_pause=given.from_pause)
    return without_payload(resumed)


@act
async def pause_endpoint(app: Backend, given: Pause) -> Endpoint:
    """Send nothing to an endpoint until it is resumed; its deliveries wait."""
    return without_credentials(await app.endpoints.pause(given.name, given.reason))


@act
async def resume_endpoint(app: Backend, given: OneName) -> Endpoint:
    """Send to a paused or disabled endpoint again."""
    return without_credentials(await app.endpoints.resume(given.name))


@act
async def pause_stream(app: Backend, given: Pause) -> Stream:
    """Start no more deliveries of a stream until it is resumed; those claimed are finished."""
    return await app.streams.pause(given.name, given.reason)


@act
async def resume_stream(app: Backend, given: OneName) -> Stream:
    """Continue a paused stream; one that is blocked stays blocked."""
    return await app.streams.resume(given.name)


ACTING = (
    *(retry_dead_letter, retry_dead_letters, trigger_schedule, pause_schedule, resume_schedule),
    *(pause_endpoint, resume_endpoint, pause_stream, resume_stream),
)
