"""`/v1/schedules`: declared, changed, paused, triggered, back-filled and explained."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from duly.domain.deliveries.payloads import Checked
from duly.domain.endpoints.targets import target_of
from duly.domain.schedules.rule_spec import explained
from duly.domain.schedules.schedule import StoredSchedule
from duly.domain.schedules.upcoming import Moment, moments
from duly.errors import InvalidInput, NotFound
from duly.records.key import Scope
from duly.services.namespace import Namespace
from duly.services.schedule_lines import line
from duly.services.schedules import Declared
from duly.surfaces.http.protocol.bodies import Why
from duly.surfaces.http.protocol.decoding import checked
from duly.surfaces.http.protocol.etags import etag
from duly.surfaces.http.protocol.hangups import while_heard
from duly.surfaces.http.protocol.pages import Page, PageQuery
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.responses import Answer
from duly.surfaces.http.protocol.routing import Other, delete, get, patch, post, put
from duly.surfaces.http.schedules import bodies as shapes
from duly.surfaces.http.schedules.bodies import (
    Backfill,
    Backfilled,
    Explain,
    Explained,
    PreviewQuery,
    Resume,
    ScheduleChange,
    ScheduleLine,
    ScheduleRecord,
    ScheduleSpec,
    Triggered,
    Upserted,
    filled,
    schedule_record,
)

CREATED = Other(Upserted, "It is new.")
NAME = "/schedules/{name}"


@get("/schedules", operation_id="list_schedules")
async def list_(app: Namespace, query: PageQuery) -> Page[ScheduleLine]:
    """List schedules by name."""
    found = await app.schedules.list(after=query.cursor or "", limit=query.limit + 1)
    items = [line(each) for each in found[: query.limit]]
    return Page(items, items[-1].name if len(found) > query.limit else None)


@put(
    NAME,
    also={201: CREATED},
    operation_id="put_schedule",
    is_versioned=True,
    creates=True,
)
async def upsert(
    app: Namespace, name: str, version: int | None, body: ScheduleSpec
) -> Answer[Upserted]:
    """Create a schedule, or make the one of that name so; the same again changes nothing."""
    payload = checked(body.payload)
    declared = await _declare(
        app, name, body.rule.rule(), target_of(body.target), payload if payload.data else None,
        version=version, **body.options(),
    )  # fmt: skip
    return _answered(declared)


@get(NAME, operation_id="get_schedule", is_versioned=True)
async def show(app: Namespace, name: str) -> Answer[ScheduleRecord]:
    """One schedule with all its options, and how far it has come."""
    return _shown(await app.schedules.get(name))


@patch(NAME, operation_id="update_schedule", is_versioned=True)
async def change(
    app: Namespace, name: str, version: int | None, body: ScheduleChange
) -> Answer[Upserted]:
    """Change what is given of a schedule; the rest stays as it is."""
    was = await app.schedules.get(name)
    rule = was.timing.rule if body.rule is UNSET else body.rule.rule()
    target = shapes.target_in(was.contents) if body.target is UNSET else target_of(body.target)
    given, kept = checked(body.payload), was.contents.payload
    payload = given if given.data or kept is None else Checked(kept)
    declared = await _declare(
        app, name, rule, target, payload if payload.data else None,
        # What was read is what is changed: nobody else's change is undone by this one.
        version=was.version if version is None else version,
        **shapes.options_of(was) | body.options(),
    )  # fmt: skip
    return _answered(declared)


@delete(NAME, operation_id="remove_schedule")
async def remove(app: Namespace, name: str, version: int | None) -> None:
    """End a schedule; what is pending is cancelled, what is under way goes on."""
    await app.schedules.remove(name, version=version)


@post(f"{NAME}/pause", status=200, operation_id="pause_schedule", is_versioned=True)
async def pause(app: Namespace, name: str, body: Why | None = None) -> Answer[ScheduleRecord]:
    """Make nothing until it is resumed; what is under way goes on."""
    return _shown(await app.schedules.pause(name, None if body is None else body.reason))


@post(f"{NAME}/resume", status=200, operation_id="resume_schedule", is_versioned=True)
async def resume(app: Namespace, name: str, body: Resume | None = None) -> Answer[ScheduleRecord]:
    """Go on from now, or with what was missed since the pause."""
    from_pause = body is not None and body.from_pause
    return _shown(await app.schedules.resume(name, from_pause=from_pause))


@post(f"{NAME}/trigger", repeatable=True, operation_id="trigger_schedule")
async def trigger(app: Namespace, request: Request, name: str) -> Answer[Triggered]:
    """Make one delivery now, beside the plan."""
    id = await app.schedules.trigger(name, id=request.seed)
    return Answer(Triggered(id), headers={"location": f"/v1/deliveries/{id}"})


@post(f"{NAME}/backfill", status=200, repeatable=True, operation_id="backfill_schedule")
async def backfill(app: Namespace, request: Request, name: str, body: Backfill) -> Backfilled:
    """Make the occurrences of a range in the past that were never made, due now."""
    looked_at = await app.schedules.count_backfill(name, body.start, body.end)
    if body.dry_run:
        return Backfilled(looked_at, 0)
    slices = app.schedules.backfill(name, body.start, body.end)
    return await while_heard(request.receive, filled(looked_at, slices))


@get(f"{NAME}/preview", operation_id="preview_schedule")
async def preview(
    app: Namespace,
    name: str,
    query: PreviewQuery,
) -> list[Moment]:
    """The next moments of a schedule; of a paused one, as if it went on now."""
    schedule = await app.schedules.get(name)
    return moments(schedule.timing.rule, await app.schedules.preview(name, query.n))


@post("/schedules/explain", status=200, scope=Scope.READ, operation_id="explain_rule")
async def explain(app: Namespace, body: Explain) -> Explained:
    """Say what a rule means, and when it is next; nothing is stored."""
    rule = body.rule.rule()
    found = rule.preview(body.n, after=app.clock.now())
    return Explained(**explained(rule), next=moments(rule, found, body.rule.tz))


async def _declare(app: Namespace, *what: Any, **options: Any) -> Declared:
    try:
        return await app.schedules.declare(*what, **options)
    except NotFound as error:
        # It is what the body names that is not there, not what the path does.
        raise InvalidInput("target", str(error)) from error


def _answered(declared: Declared) -> Answer[Upserted]:
    record = Upserted(**schedule_record(declared.schedule), change=declared.change)
    status = 201 if declared.change == "created" else 200
    return Answer(record, status=status, headers=etag(record.version))


def _shown(schedule: StoredSchedule) -> Answer[ScheduleRecord]:
    return Answer(ScheduleRecord(**schedule_record(schedule)), headers=etag(schedule.version))


ROUTES = [
    list_, upsert, show, change, remove, pause, resume, trigger, backfill, preview, explain
]  # fmt: skip
