"""`duly calendars`: list, show, set, import and remove the closed days of rules."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from cyclopts import App, Parameter

from duly.errors import InvalidInput, quoted
from duly.records.calendar import DEFAULT_WEEKEND, Calendar, ChangedCalendar
from duly.surfaces.cli.deliveries.commands import Limit, checked_limit
from duly.surfaces.cli.terminal.confirmation import Yes, confirmed
from duly.surfaces.cli.terminal.delivery_options import bytes_of
from duly.surfaces.cli.terminal.flags import COMMON, After, Common, backend
from duly.surfaces.cli.terminal.listing import Columns, answer_list
from duly.surfaces.cli.terminal.output import answer, facts, table

COLUMNS = Columns("name weekend dates last_date schedules updated_at")
Closed = Annotated[
    tuple[str, ...],
    Parameter(
        help="A closed date, as in 2026-12-25 or 2026-12-25=Christmas; several times.",
        negative=(),
        show_default=False,
    ),
]
Weekend = Annotated[
    tuple[str, ...],
    Parameter(
        help="A weekday that is closed, as in friday; several times. Saturday and Sunday if not "
        "given.",
        negative=(),
        show_default=False,
    ),
]
NoWeekend = Annotated[bool, Parameter(negative=(), help="Close no weekday, only the dates.")]

commands = App(name="calendars", help="List, show, set, import and remove closed days of rules.")


@commands.command(name="list")
async def list_(*, after: After = "", limit: Limit = 50, common: Common = COMMON) -> None:
    """List calendars by name, with the number of schedules that use each."""
    checked_limit(limit)
    async with backend(common) as app:
        found = await app.calendars.list(after=after, limit=limit + 1)
    answer_list(common, found, COLUMNS, limit, "name")


@commands.command
async def show(name: str, /, *, common: Common = COMMON) -> None:
    """Show one calendar with all its closed dates."""
    async with backend(common) as app:
        found = await app.calendars.get(name)
    answer(common.json, found, lambda: _shown(found))


@commands.command(name="set")
async def set_(
    name: str,
    /,
    *,
    closed: Closed = (),
    weekend: Weekend = (),
    no_weekend: NoWeekend = False,
    common: Common = COMMON,
) -> None:
    """Create or replace a calendar; schedules that use it change with it."""
    if weekend and no_weekend:
        raise InvalidInput("no_weekend", "give it or --weekend, not both")
    days = weekend or (() if no_weekend else DEFAULT_WEEKEND)
    dates = dict(map(_date, closed))
    if len(dates) < len(closed):
        raise InvalidInput("closed", "a date is given twice; give it once")
    async with backend(common, create=True) as app:
        found = await app.calendars.set(name, dates, weekend=days)
    _print(common, found)


@commands.command(name="import")
async def import_(name: str, file: str, /, *, common: Common = COMMON) -> None:
    """Create a calendar, or replace its closed dates, with those of an iCalendar file.

    Parameters
    ----------
    name
        Its name.
    file
        The path of the file (.ics); - reads it from stdin.
    """
    data = bytes_of("file", file)
    async with backend(common, create=True) as app:
        found = await app.calendars.import_ics(name, data)
    _print(common, found)


@commands.command
async def remove(name: str, /, *, yes: Yes = False, common: Common = COMMON) -> None:
    """Remove a calendar that no schedule uses."""
    async with backend(common) as app:
        found = await app.calendars.get(name)
        summary = f"{name}, closed dates: {len(found.closed)}."
        removed = yes or confirmed(f"{summary}\nRemove it for good?")
        if removed:
            await app.calendars.remove(name)
    text = f"{name} {'removed' if removed else 'kept'}"
    answer(common.json, {"name": name, "removed": removed}, lambda: text)


def _date(given: str) -> tuple[date, str]:
    text, _, label = given.partition("=")
    try:
        return date.fromisoformat(text), label
    except ValueError:
        raise InvalidInput(
            "closed", f"{quoted(text)} is no date; write 2026-12-25 or 2026-12-25=Christmas"
        ) from None


def _print(common: Common, found: ChangedCalendar) -> None:
    moved = f", schedules with another next moment: {found.moved}" if found.moved else ""
    text = f"{found.name} {found.change}, closed dates: {len(found.closed)}{moved}"
    answer(common.json, found, lambda: text)


def _shown(found: Calendar) -> str:
    about = {
        "name": found.name,
        "weekend": list(found.weekend),
        "version": found.version,
        "created_at": found.created_at,
        "updated_at": found.updated_at,
    }
    dates = table(("closed", "label"), found.closed.items(), ("label",))
    return f"{facts(about)}\n\n{dates}"
