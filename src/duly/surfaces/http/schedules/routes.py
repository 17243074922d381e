"""`/v1/schedules`: declared, changed, paused, triggered, back-filled and explained."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from duly.domain.endpoints.targets import target_of
from duly.domain.schedules.rule_spec import rule_of
from duly.errors import InvalidInput, NotFound
from duly.records.dead_letter import BulkResult
from duly.records.key import Scope
from duly.records.partial import given
from duly.records.schedule import (
    Backfilled,
    DeclaredSchedule,
    RuleExplanation,
    Schedule,
    ScheduleSpec,
    ScheduleSummary,
    Triggered,
    UpcomingRun,
)
from duly.services.namespace import Namespace
from duly.surfaces.http.protocol.bodies import Why
from duly.surfaces.http.protocol.bulk import run_bulk
from duly.surfaces.http.protocol.decoding import checked
from duly.surfaces.http.protocol.etags import etag
from duly.surfaces.http.protocol.hangups import while_connected
from duly.surfaces.http.protocol.pages import Page, page_of
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.responses import Answer
from duly.surfaces.http.protocol.routing import Other, delete, get, patch, post, put
from duly.surfaces.http.schedules.bodies import (
    Backfill,
    Explain,
    PauseMany,
    PreviewQuery,
    Resume,
    ResumeMany,
    ScheduleChange,
    SchedulesQuery,
    filled,
)

CREATED = Other(DeclaredSchedule, "It is new.")
NAME = "/schedules/{name}"
READ: dict[str, Callable[[Any], Any]] = {
    "rule": rule_of,
    "target": target_of,
    "payload": checked,
}
"""The fields of a body that are not options, and how each is converted."""


@get("/schedules", operation_id="list_schedules")
async def list_(app: Namespace, query: SchedulesQuery) -> Page[ScheduleSummary]:
    """List schedules by name."""
    after = query.cursor or ""
    found = await app.schedules.list(**query.wanted(), after=after, limit=query.limit + 1)
    return page_of(found, query.limit, "name")


@put(
    NAME,
    also={201: CREATED},
    operation_id="put_schedule",
    is_versioned=True,
    creates=True,
)
async def upsert(
    app: Namespace, name: str, version: int | None, body: ScheduleSpec
) -> Answer[DeclaredSchedule]:
    """Create or replace the schedule of that name; an equal one changes nothing."""
    rule, target, payload = rule_of(body.rule), target_of(body.target), checked(body.payload)
    declaring = app.schedules.declare(
        name, rule, target, payload if payload.data else None, version=version, **body.keywords()
    )
    return await _declared(declaring)


@get(NAME, operation_id="get_schedule", is_versioned=True)
async def show(app: Namespace, name: str) -> Answer[Schedule]:
    """One schedule with all its options and its progress."""
    return _shown(await app.schedules.get(name))


@patch(NAME, operation_id="update_schedule", is_versioned=True)
async def change(
    app: Namespace, name: str, version: int | None, body: ScheduleChange
) -> Answer[DeclaredSchedule]:
    """Change the given fields of a schedule; the others stay as they are."""
    changes = given(body)
    for part, read in READ.items():
        if part in changes:
            changes[part] = read(changes[part])
    return await _declared(app.schedules.edit(name, version=version, **changes))


@delete(NAME, operation_id="remove_schedule")
async def remove(app: Namespace, name: str, version: int | None) -> None:
    """Remove a schedule; pending deliveries are cancelled, attempts in progress continue."""
    await app.schedules.remove(name, version=version)


@post(f"{NAME}/pause", status=200, operation_id="pause_schedule", is_versioned=True)
async def pause(app: Namespace, name: str, body: Why | None = None) -> Answer[Schedule]:
    """Create no deliveries until it is resumed; attempts in progress continue."""
    return _shown(await app.schedules.pause(name, None if body is None else body.reason))


@post(f"{NAME}/resume", status=200, operation_id="resume_schedule", is_versioned=True)
async def resume(app: Namespace, name: str, body: Resume | None = None) -> Answer[Schedule]:
    """Continue from now, or with occurrences missed since the pause."""
    from_pause = body is not None and body.from_pause
    return _shown(await app.schedules.resume(name, from_pause=from_pause))


@post("/schedules/pause", status=200, repeatable=True, operation_id="pause_schedules")
async def pause_all(app: Namespace, request: Request, body: PauseMany) -> BulkResult:
    """Pause the schedules that match.

    Repeat it with the `until` of its answer until it is `finished`.
    """
    matching = await app.schedules.count(**body.filter())
    moves = app.schedules.pause_all(**body.filter(), reason=body.reason)
    return await run_bulk(request, app.clock, body, matching, moves)


@post("/schedules/resume", status=200, repeatable=True, operation_id="resume_schedules")
async def resume_all(app: Namespace, request: Request, body: ResumeMany) -> BulkResult:
    """Resume the schedules that match.

    Repeat it with the `until` of its answer until it is `finished`.
    """
    matching = await app.schedules.count(**body.filter(), paused=True)
    moves = app.schedules.resume_all(**body.filter(), from_pause=body.from_pause)
    return await run_bulk(request, app.clock, body, matching, moves)


@post(f"{NAME}/trigger", repeatable=True, operation_id="trigger_schedule")
async def trigger(app: Namespace, request: Request, name: str) -> Answer[Triggered]:
    """Create one extra delivery now."""
    id = await app.schedules.trigger(name, id=request.seed)
    return Answer(Triggered(id), headers={"location": f"/v1/deliveries/{id}"})


@post(f"{NAME}/backfill", status=200, repeatable=True, operation_id="backfill_schedule")
async def backfill(app: Namespace, request: Request, name: str, body: Backfill) -> Backfilled:
    """Create the missing occurrences of a past range, due now."""
    count = await app.schedules.count_backfill(name, body.start, body.end)
    if body.dry_run:
        return Backfilled(count, 0)
    slices = app.schedules.backfill(name, body.start, body.end)
    return await while_connected(request.receive, filled(count, slices))


@get(f"{NAME}/preview", operation_id="preview_schedule")
async def preview(app: Namespace, name: str, query: PreviewQuery) -> list[UpcomingRun]:
    """The next moments of a schedule; of a paused one, as if it were resumed now."""
    return list(await app.schedules.preview(name, query.n))


@post("/schedules/explain", status=200, scope=Scope.READ, operation_id="explain_rule")
async def explain(app: Namespace, body: Explain) -> RuleExplanation:
    """Explain a rule, with its next moments; nothing is stored."""
    return await app.schedules.explain(rule_of(body.rule), body.n)


async def _declared(declaring: Awaitable[DeclaredSchedule]) -> Answer[DeclaredSchedule]:
    try:
        declared = await declaring
    except NotFound as error:
        if error.kind == "schedule":
            raise
        # The body names a target that does not exist; the path is right.
        raise InvalidInput("target", str(error)) from error
    status = 201 if declared.change == "created" else 200
    return Answer(declared, status=status, headers=etag(declared.version))


def _shown(schedule: Schedule) -> Answer[Schedule]:
    return Answer(schedule, headers=etag(schedule.version))


ROUTES = [
    pause_all, resume_all, list_, upsert, show, change, remove, pause, resume, trigger, backfill,
    preview, explain,
]  # fmt: skip
