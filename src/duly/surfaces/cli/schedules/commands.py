"""`duly schedules`: list, show and change schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

from cyclopts import App, Parameter

from duly.records.schedule import Schedule, ScheduleState, ScheduleSummary, Triggered, UpcomingRun
from duly.surfaces.cli.deliveries.commands import Limit, checked_limit
from duly.surfaces.cli.schedules.add import add
from duly.surfaces.cli.schedules.backfill import backfill
from duly.surfaces.cli.schedules.explain import explain
from duly.surfaces.cli.schedules.orphans import orphans
from duly.surfaces.cli.schedules.pauses import pause, resume
from duly.surfaces.cli.terminal.confirmation import Yes, confirmed
from duly.surfaces.cli.terminal.flags import COMMON, After, Common, backend
from duly.surfaces.cli.terminal.moments import Count, listed
from duly.surfaces.cli.terminal.output import (
    answer,
    answer_page,
    facts,
    items,
    print_message,
    table,
)
from duly.surfaces.cli.terminal.retry_plans import plan_in_words
from duly.surfaces.cli.terminal.times import spelled

SHOWN_MOMENTS = 5
SHOWN = (
    *("name", "state", "rule", "target", "next_at", "last_fired_at", "runs", "merged", "skipped"),
    *("paused_at", "pause_reason", "next_id", "payload", "priority", "stream", "tags"),
    *("retry", "catch_up", "cap", "overlap", "start", "end", "max_runs", "window", "jitter"),
    *("expires_after", "declared_in", "version", "created_at", "updated_at"),
)
"""The facts about one schedule, in their order."""


@Parameter(name="*")
@dataclass(frozen=True)
class ScheduleFlags:
    """A filter: schedules that match all given flags."""

    text: Annotated[str | None, Parameter(help="Part of the name.")] = None
    tag: Annotated[str | None, Parameter(help="A tag of their deliveries.")] = None
    state: Annotated[str | None, Parameter(help=f"{', '.join(ScheduleState)}.")] = None
    target: Annotated[
        str | None,
        Parameter(help="Where they deliver to: a handler, endpoint:NAME, or https://example.org."),
    ] = None


WANTED = ScheduleFlags()
LISTED = ("name", "state", "target", "next_at", "last_fired_at", "runs", "merged", "skipped")
HEADINGS = ("name", "state", "target", "next", "last", "runs", "merged", "skipped", "rule")

commands = App(name="schedules", help="List, show, add, pause, trigger and backfill schedules.")


@commands.command(name="list")
async def list_(
    *,
    wanted: ScheduleFlags = WANTED,
    after: After = "",
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List schedules by name."""
    checked_limit(limit)
    async with backend(common) as app:
        found = await app.schedules.list(**asdict(wanted), after=after, limit=limit + 1)
    page = found[:limit]
    next_name = page[-1].name if len(found) > limit else None
    answer_page(common.json, page, next_name, lambda: _listed(page))


@commands.command
async def show(name: str, /, *, common: Common = COMMON) -> None:
    """Show one schedule with all its options, its progress and its next moments."""
    async with backend(common) as app:
        schedule = await app.schedules.get(name)
        found = await app.schedules.preview(name, SHOWN_MOMENTS)
    _warn_if_paused(schedule)
    answer(common.json, schedule, lambda: shown(schedule, found))


commands.command(add)


commands.command(pause)
commands.command(resume)


@commands.command
async def remove(name: str, /, *, yes: Yes = False, common: Common = COMMON) -> None:
    """Remove a schedule; pending deliveries are cancelled, attempts in progress continue."""
    async with backend(common) as app:
        schedule = await app.schedules.get(name)
        summary = f"{name} delivers to {schedule.target} {schedule.description}."
        removed = yes or confirmed(f"{summary}\nRemove it for good?")
        if removed:
            await app.schedules.remove(name)
    text = f"{name} {'removed' if removed else 'kept'}"
    answer(common.json, {"name": name, "removed": removed}, lambda: text)


@commands.command
async def trigger(name: str, /, *, common: Common = COMMON) -> None:
    """Create one extra delivery now and print its id."""
    async with backend(common) as app:
        id = await app.schedules.trigger(name)
    answer(common.json, Triggered(id), lambda: id)


commands.command(backfill)


@commands.command
async def preview(name: str, /, *, count: Count = 5, common: Common = COMMON) -> None:
    """Show the next moments of a schedule."""
    async with backend(common) as app:
        schedule = await app.schedules.get(name)
        found = await app.schedules.preview(name, count)
    _warn_if_paused(schedule)
    answer(common.json, items(found), lambda: listed(found, schedule.rule.zone))


commands.command(explain)
commands.command(orphans)


def _warn_if_paused(schedule: Schedule) -> None:
    if schedule.paused_at is not None:
        print_message("it is paused; these would be its moments if it were resumed now")


def _listed(page: Sequence[ScheduleSummary]) -> str:
    rows = (
        (*(getattr(each, name) for name in LISTED), each.description or each.problem)
        for each in page
    )
    return table(HEADINGS, rows, folds=("rule",))


def shown(schedule: Schedule, upcoming: Sequence[UpcomingRun]) -> str:
    """All of a schedule, and its next moments."""
    spans = {name: getattr(schedule, name) for name in ("window", "jitter", "expires_after")}
    special = {
        "rule": schedule.description,
        "payload": schedule.payload_json if bytes(schedule.payload_json) != b"null" else None,
        "retry": None if schedule.retry is None else plan_in_words(schedule.retry),
        **{name: None if each is None else spelled(each) for name, each in spans.items()},
        **({} if schedule.jitter else {"jitter": None}),
    }
    found = {name: special[name] if name in special else getattr(schedule, name) for name in SHOWN}
    return "\n\n".join(
        [facts(found), *([listed(upcoming, schedule.rule.zone)] if upcoming else [])]
    )
