"""`duly schedules`: what is on the books, when it is next, and the moves an operator can make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from duly.domain.deliveries.retry import decode
from duly.domain.endpoints.webhooks import decode_webhook
from duly.domain.schedules.schedule import StoredSchedule
from duly.domain.schedules.upcoming import Moment, moments
from duly.records.schedule import ScheduleSummary
from duly.records.target import shown_headers
from duly.safe_text import shown_url
from duly.services.schedule_lines import last_fired_at, line, runs_so_far
from duly.surfaces.cli.deliveries.commands import Limit, checked_limit
from duly.surfaces.cli.schedules.add import add
from duly.surfaces.cli.schedules.backfill import backfill
from duly.surfaces.cli.schedules.explain import explain
from duly.surfaces.cli.terminal.confirmation import Yes, agreed
from duly.surfaces.cli.terminal.flags import COMMON, After, Common, Why, books
from duly.surfaces.cli.terminal.moments import Count, listed
from duly.surfaces.cli.terminal.output import (
    answer,
    answer_page,
    cell,
    facts,
    fields,
    items,
    table,
    talk,
)
from duly.surfaces.cli.terminal.retry_plans import plan_in_words
from duly.surfaces.cli.terminal.times import spelled

SHOWN_MOMENTS = 5

commands = App(name="schedules", help="List, show, add, pause, trigger and backfill schedules.")


@commands.command(name="list")
async def list_(
    *,
    after: After = "",
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List schedules by name."""
    checked_limit(limit)
    async with books(common) as app:
        found = await app.schedules.list(after=after, limit=limit + 1)
    page = [line(each) for each in found[:limit]]
    next_name = page[-1].name if len(found) > limit else None
    answer_page(common.json, page, next_name, lambda: _listed(page))


@commands.command
async def show(name: str, /, *, common: Common = COMMON) -> None:
    """Show one schedule with all its options, how far it has come, and what is next."""
    async with books(common) as app:
        schedule = await app.schedules.get(name)
        found = await app.schedules.preview(name, SHOWN_MOMENTS)
    upcoming = moments(schedule.timing.rule, found)
    _say_if_paused(schedule)
    answer(common.json, _document(schedule, upcoming), lambda: _shown(schedule, upcoming))


commands.command(add)


@commands.command
async def pause(
    name: str,
    /,
    *,
    reason: Why = None,
    common: Common = COMMON,
) -> None:
    """Make nothing until it is resumed; what is under way goes on."""
    async with books(common) as app:
        before = await app.schedules.get(name)
        schedule = await app.schedules.pause(name, reason)
    said = schedule.state if before.paused_at is None else "was paused already"
    answer(common.json, line(schedule), lambda: f"{name} {said}")


@commands.command
async def resume(
    name: str,
    /,
    *,
    from_pause: Annotated[
        bool, Parameter(negative=(), help="Catch up what was missed, by its catch-up rule.")
    ] = False,
    common: Common = COMMON,
) -> None:
    """Go on from now; what the pause left out stays out."""
    async with books(common) as app:
        before = await app.schedules.get(name)
        schedule = await app.schedules.resume(name, from_pause=from_pause)
    upcoming = cell(schedule.progress.made_at) or "none"
    said = f"was {schedule.state} already" if before.paused_at is None else schedule.state
    answer(common.json, line(schedule), lambda: f"{name} {said}, next {upcoming}")


@commands.command
async def remove(name: str, /, *, yes: Yes = False, common: Common = COMMON) -> None:
    """End a schedule; what is pending is cancelled, what is under way goes on."""
    async with books(common) as app:
        schedule = await app.schedules.get(name)
        rule, target = schedule.timing.rule.describe(), schedule.contents.target
        removed = yes or agreed(f"{name} delivers to {target} {rule}.\nRemove it for good?")
        if removed:
            await app.schedules.remove(name)
    answer(
        common.json,
        {"name": name, "removed": removed},
        lambda: f"{name} {'removed' if removed else 'kept'}",
    )


@commands.command
async def trigger(name: str, /, *, common: Common = COMMON) -> None:
    """Make one delivery now, beside the plan, and print its id."""
    async with books(common) as app:
        id = await app.schedules.trigger(name)
        document = await app.deliveries.get(id) if common.json else None
    answer(common.json, document, lambda: id)


commands.command(backfill)


@commands.command
async def preview(name: str, /, *, count: Count = 5, common: Common = COMMON) -> None:
    """Show the next moments of a schedule."""
    async with books(common) as app:
        schedule = await app.schedules.get(name)
        found = moments(schedule.timing.rule, await app.schedules.preview(name, count))
    _say_if_paused(schedule)
    answer(common.json, items(found), lambda: listed(found))


commands.command(explain)


def _say_if_paused(schedule: StoredSchedule) -> None:
    if schedule.paused_at is not None:
        talk("it is paused; these would be its moments if it were resumed now")


def _listed(page: Sequence[ScheduleSummary]) -> str:
    return table(
        ("name", "state", "target", "next", "last", "runs", "merged", "skipped", "rule"),
        (
            (
                each.name,
                each.state,
                each.target,
                each.next_at,
                each.last_fired_at,
                each.runs,
                each.merged,
                each.skipped,
                each.rule or each.problem,
            )
            for each in page
        ),
        folds=("rule",),
    )


def _document(schedule: StoredSchedule, upcoming: Sequence[Moment]) -> dict[str, Any]:
    contents = schedule.contents
    return fields(
        schedule,
        state=schedule.state,
        rule=schedule.timing.rule.describe(),
        last_fired_at=last_fired_at(schedule),
        contents=fields(
            contents,
            address=None if contents.address is None else _shown_address(contents.address),
            payload=None if contents.payload is None else msgspec.Raw(contents.payload),
            retry=None if contents.retry is None else msgspec.Raw(contents.retry.encode()),
        ),
        progress=fields(schedule.progress, runs=runs_so_far(schedule)),
        next=upcoming,
    )


def _shown_address(stored: str) -> dict[str, Any]:
    webhook = decode_webhook(stored)
    return fields(webhook, url=shown_url(webhook.url), headers=shown_headers(webhook.headers))


def _shown(schedule: StoredSchedule, upcoming: Sequence[Moment]) -> str:
    told = fields(line(schedule)) | {
        "paused_at": schedule.paused_at,
        "pause_reason": schedule.pause_reason,
        "on_the_books": schedule.progress.made_id,
        **_options(schedule),
        "version": schedule.version,
        "created_at": schedule.created_at,
        "updated_at": schedule.updated_at,
    }
    return f"{facts(told)}\n\n{listed(upcoming)}" if upcoming else facts(told)


def _options(schedule: StoredSchedule) -> dict[str, Any]:
    timing, contents = schedule.timing, schedule.contents
    payload = None if contents.payload is None else msgspec.Raw(contents.payload)
    spans = {"window": timing.window, "jitter": timing.jitter or None}
    spans["expires_after"] = contents.expires_after
    return {
        "payload": payload,
        "priority": contents.priority,
        "stream": contents.stream,
        "tags": list(contents.tags),
        "retry": None if contents.retry is None else plan_in_words(decode(contents.retry)),
        "catch_up": timing.catch_up,
        "cap": timing.cap,
        "overlap": timing.overlap,
        "start": timing.starts_at,
        "end": timing.ends_at,
        "max_runs": timing.max_runs,
        **{name: None if each is None else spelled(each) for name, each in spans.items()},
    }
