"""`duly schedules backfill`: make what a range of the past should have had and has not."""

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
from duly.surfaces.cli.terminal.confirmation import Yes, agreed
from duly.surfaces.cli.terminal.flags import COMMON, Books, Common, books
from duly.surfaces.cli.terminal.output import answer, progress, talk
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
    dry_run: Annotated[bool, Parameter(negative=(), help="Count, and make nothing.")] = False,
    yes: Yes = False,
    common: Common = COMMON,
) -> None:
    """Make what a range of the past should have had, due now; safe to stop and to repeat.

    What was made already, by the plan or an earlier backfill, is passed over.
    """
    begin, end = span.moments()
    async with books(common) as app:
        many, made = await _count(app, name, begin, end), 0
        if many and not dry_run and (yes or _agreed(name, many)):
            made = await _make(app, name, begin, end, many)
    text = f"{many} moments" if dry_run else f"{made} of {many} made"
    answer(common.json, Backfilled(many, made), lambda: text)


async def _count(app: Books, name: str, begin: datetime, end: datetime) -> int:
    try:
        return await app.schedules.count_backfill(name, begin, end)
    except InvalidInput as error:
        # The same moments have other names here.
        said = {"start": "from", "end": "to"}.get(error.field, error.field)
        raise InvalidInput(said, error.problem.replace("start <= end", "from <= to")) from error


def _agreed(name: str, many: int) -> bool:
    return agreed(
        f"{name} has {many} moments in that range; those not yet made become due now.\nMake them?",
        "--yes, or --dry-run to only count",
    )


async def _make(app: Books, name: str, begin: datetime, end: datetime, many: int) -> int:
    made = 0
    try:
        with progress("making", many) as advance:
            async for count in stoppable(app.schedules.backfill(name, begin, end)):
                made += count
                advance(BACKFILL_SLICE)
    except STOPS as stop:
        talk(f"stopped after {stopped_after(made, stop)}; the same command makes the rest")
        raise
    return made
