"""`duly schedules backfill`: create the missing occurrences of a past range."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from cyclopts import Parameter

from duly.domain.checks import checked_moment
from duly.domain.schedules.schedule import BACKFILL_SLICE
from duly.errors import InvalidInput
from duly.records.schedule import Backfilled
from duly.surfaces.cli.terminal.bulk import STOPS, stoppable, stopped_after
from duly.surfaces.cli.terminal.confirmation import Yes, confirmed
from duly.surfaces.cli.terminal.flags import COMMON, Backend, Common, backend
from duly.surfaces.cli.terminal.output import answer, print_message, progress
from duly.surfaces.cli.terminal.times import moment


@Parameter(name="*")
@dataclass(frozen=True)
class Span:
    """A range of the past, both ends included."""

    begin: Annotated[str, Parameter(name="--from", help="As in 2026-11-16T00:00Z.")]
    end: Annotated[str, Parameter(name="--to", help="Not later than now.")]

    def moments(self) -> tuple[datetime, datetime]:
        """Its ends."""
        ends = (("from", self.begin), ("to", self.end))
        begin, end = (checked_moment(name, moment(name, text)) for name, text in ends)
        return begin, end


async def backfill(
    name: str,
    /,
    *,
    span: Span,
    dry_run: Annotated[bool, Parameter(negative=(), help="Only count; create nothing.")] = False,
    yes: Yes = False,
    common: Common = COMMON,
) -> None:
    """Create the missing occurrences of a past range, due now; safe to stop and repeat.

    Occurrences that exist already are skipped.
    """
    begin, end = span.moments()
    async with backend(common) as app:
        count, made = await _count(app, name, begin, end), 0
        if count and not dry_run and (yes or _confirmed(name, count)):
            made = await _make(app, name, begin, end, count)
    text = f"{count} moments" if dry_run else f"{made} of {count} made"
    answer(common.json, Backfilled(count, made), lambda: text)


async def _count(app: Backend, name: str, begin: datetime, end: datetime) -> int:
    try:
        return await app.schedules.count_backfill(name, begin, end)
    except InvalidInput as error:
        # The flags have other names than the arguments.
        flag = {"start": "from", "end": "to"}.get(error.field, error.field)
        raise InvalidInput(flag, error.problem.replace("start <= end", "from <= to")) from error


def _confirmed(name: str, count: int) -> bool:
    return confirmed(
        f"{name} has {count} moments in that range; missing ones become due now.\nCreate them?",
        "--yes, or --dry-run to only count",
    )


async def _make(app: Backend, name: str, begin: datetime, end: datetime, total: int) -> int:
    made = 0
    try:
        with progress("creating", total) as advance:
            async for count in stoppable(app.schedules.backfill(name, begin, end)):
                made += count
                advance(BACKFILL_SLICE)
    except STOPS as stop:
        print_message(
            f"stopped after {stopped_after(made, stop)}; the same command creates the rest"
        )
        raise
    return made
