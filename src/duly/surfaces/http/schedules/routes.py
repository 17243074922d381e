"""`/v1/schedules`: declared, changed, paused, triggered, back-filled and explained."""

from __future__ import annotations

from typing import Any

from litestar import Response, delete, get, patch, post, put
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody, SkipValidation
from msgspec import UNSET

from duly.domain.access.keys import Scope
from duly.domain.deliveries.payloads import Checked
from duly.domain.schedules.schedule import StoredSchedule
from duly.errors import InvalidInput, NotFound
from duly.services.namespace import Namespace
from duly.services.schedules import Declared
from duly.surfaces.http.deliveries.bodies import target_of
from duly.surfaces.http.protocol.bodies import Why
from duly.surfaces.http.protocol.decoding import asked, checked
from duly.surfaces.http.protocol.etags import ETAG, IF_MATCH, Version, etag
from duly.surfaces.http.protocol.hangups import while_heard
from duly.surfaces.http.protocol.pages import Page, PageQuery
from duly.surfaces.http.protocol.request_context import AnyRequest, Served, seed_of
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
from duly.surfaces.moments import Moment, moments
from duly.surfaces.rule_words import explained
from duly.surfaces.schedule_lines import line

CREATED = ResponseSpec(Upserted, description="It is new.")
NAME = "/schedules/{name:str}"


@get("/schedules", dependencies={"wanted": asked(PageQuery)}, operation_id="list_schedules")
async def list_(
    duly_app: Served, wanted: NamedDependency[SkipValidation[PageQuery]]
) -> Page[ScheduleLine]:
    """List schedules by name."""
    found = await duly_app.schedules.list(after=wanted.cursor or "", limit=wanted.limit + 1)
    items = [line(each) for each in found[: wanted.limit]]
    return Page(items, items[-1].name if len(found) > wanted.limit else None)


@put(
    NAME,
    dependencies=IF_MATCH,
    responses={201: CREATED},
    operation_id="put_schedule",
    response_headers=ETAG,
    opt={"creates": True},
)
async def upsert(
    duly_app: Served, name: FromPath[str], version: Version, data: JSONBody[ScheduleSpec]
) -> Response[Upserted]:
    """Create a schedule, or make the one of that name so; the same again changes nothing."""
    payload = checked(data.payload)
    declared = await _declare(
        duly_app, name, data.rule.rule(), target_of(data.target), payload if payload.data else None,
        version=version, **data.options(),
    )  # fmt: skip
    return _answered(declared)


@get(NAME, operation_id="get_schedule", response_headers=ETAG)
async def show(duly_app: Served, name: FromPath[str]) -> Response[ScheduleRecord]:
    """One schedule with all its options, and how far it has come."""
    return _shown(await duly_app.schedules.get(name))


@patch(NAME, dependencies=IF_MATCH, operation_id="update_schedule", response_headers=ETAG)
async def change(
    duly_app: Served, name: FromPath[str], version: Version, data: JSONBody[ScheduleChange]
) -> Response[Upserted]:
    """Change what is given of a schedule; the rest stays as it is."""
    was = await duly_app.schedules.get(name)
    rule = was.timing.rule if data.rule is UNSET else data.rule.rule()
    target = shapes.target_in(was.contents) if data.target is UNSET else target_of(data.target)
    given, kept = checked(data.payload), was.contents.payload
    payload = given if given.data or kept is None else Checked(kept)
    declared = await _declare(
        duly_app, name, rule, target, payload if payload.data else None,
        # What was read is what is changed: nobody else's change is undone by this one.
        version=was.version if version is None else version,
        **shapes.options_of(was) | data.options(),
    )  # fmt: skip
    return _answered(declared)


@delete(NAME, dependencies=IF_MATCH, operation_id="remove_schedule")
async def remove(duly_app: Served, name: FromPath[str], version: Version) -> None:
    """End a schedule; what is pending is cancelled, what is under way goes on."""
    await duly_app.schedules.remove(name, version=version)


@post(f"{NAME}/pause", status_code=200, operation_id="pause_schedule", response_headers=ETAG)
async def pause(
    duly_app: Served, name: FromPath[str], data: JSONBody[Why | None] = None
) -> Response[ScheduleRecord]:
    """Make nothing until it is resumed; what is under way goes on."""
    return _shown(await duly_app.schedules.pause(name, None if data is None else data.reason))


@post(f"{NAME}/resume", status_code=200, operation_id="resume_schedule", response_headers=ETAG)
async def resume(
    duly_app: Served, name: FromPath[str], data: JSONBody[Resume | None] = None
) -> Response[ScheduleRecord]:
    """Go on from now, or with what was missed since the pause."""
    from_pause = data is not None and data.from_pause
    return _shown(await duly_app.schedules.resume(name, from_pause=from_pause))


@post(f"{NAME}/trigger", opt={"repeatable": True}, operation_id="trigger_schedule")
async def trigger(
    duly_app: Served, request: AnyRequest, name: FromPath[str]
) -> Response[Triggered]:
    """Make one delivery now, beside the plan."""
    id = await duly_app.schedules.trigger(name, id=seed_of(request))
    return Response(Triggered(id), headers={"location": f"/v1/deliveries/{id}"})


@post(
    f"{NAME}/backfill", status_code=200, opt={"repeatable": True}, operation_id="backfill_schedule"
)
async def backfill(
    duly_app: Served, request: AnyRequest, name: FromPath[str], data: JSONBody[Backfill]
) -> Backfilled:
    """Make the occurrences of a range in the past that were never made, due now."""
    looked_at = await duly_app.schedules.count_backfill(name, data.start, data.end)
    if data.dry_run:
        return Backfilled(looked_at, 0)
    slices = duly_app.schedules.backfill(name, data.start, data.end)
    return await while_heard(request, filled(looked_at, slices))


@get(
    f"{NAME}/preview", dependencies={"wanted": asked(PreviewQuery)}, operation_id="preview_schedule"
)
async def preview(
    duly_app: Served,
    name: FromPath[str],
    wanted: NamedDependency[SkipValidation[PreviewQuery]],
) -> list[Moment]:
    """The next moments of a schedule; of a paused one, as if it went on now."""
    schedule = await duly_app.schedules.get(name)
    return moments(schedule.timing.rule, await duly_app.schedules.preview(name, wanted.n))


@post("/schedules/explain", status_code=200, opt={"scope": Scope.READ}, operation_id="explain_rule")
async def explain(duly_app: Served, data: JSONBody[Explain]) -> Explained:
    """Say what a rule means, and when it is next; nothing is stored."""
    rule = data.rule.rule()
    found = rule.preview(data.n, after=duly_app.clock.now())
    return Explained(**explained(rule), next=moments(rule, found, data.rule.tz))


async def _declare(app: Namespace, *what: Any, **options: Any) -> Declared:
    try:
        return await app.schedules.declare(*what, **options)
    except NotFound as error:
        # It is what the body names that is not there, not what the path does.
        raise InvalidInput("target", str(error)) from error


def _answered(declared: Declared) -> Response[Upserted]:
    record = Upserted(**schedule_record(declared.schedule), change=declared.change)
    status = 201 if declared.change == "created" else 200
    return Response(record, status_code=status, headers=etag(record.version))


def _shown(schedule: StoredSchedule) -> Response[ScheduleRecord]:
    return Response(ScheduleRecord(**schedule_record(schedule)), headers=etag(schedule.version))


ROUTES = [
    list_, upsert, show, change, remove, pause, resume, trigger, backfill, preview, explain
]  # fmt: skip
