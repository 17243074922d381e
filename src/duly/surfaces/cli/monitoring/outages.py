"""`duly outages`: when nothing was done although work was due."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from duly.domain.time.durations import duration
from duly.records.outage import Outage, OutageReport
from duly.surfaces.cli.deliveries.commands import Limit, checked_limit
from duly.surfaces.cli.monitoring.stats import Since, since_of
from duly.surfaces.cli.terminal.flags import COMMON, Common, backend
from duly.surfaces.cli.terminal.listing import Columns
from duly.surfaces.cli.terminal.output import answer, print_message
from duly.surfaces.cli.terminal.times import spelled

AtLeast = Annotated[str, Parameter(help="Leave out shorter ones; a minute or more.")]


async def outages(
    *,
    since: Since = "7d",
    at_least: AtLeast = "5m",
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """Show outages: from when to when nothing was attempted although deliveries were due.

    Each with the number of deliveries that were late, how late they were, and when the last of them
    was started.
    """
    wanted, least = since_of(since), duration("at_least", at_least)
    async with backend(common) as app:
        found = await app.stats.outages(wanted, at_least=least, limit=checked_limit(limit))
    answer(common.json, found, lambda: _shown(found))
    if found.capped and not common.json:
        print_message(f"only the newest {found.counted_up_to} deliveries were examined")


def _shown(found: OutageReport) -> str:
    return COLUMNS.table(found.outages)


def _worked_off(outage: Outage) -> object:
    return f"{outage.waiting} still wait" if outage.waiting else outage.worked_off_at


COLUMNS = Columns(
    "began_at ended_at lasted late most_late=largest median worked_off",
    lasted=lambda each: spelled(each.seconds),
    largest=lambda each: spelled(each.largest_late_seconds),
    median=lambda each: spelled(each.median_late_seconds),
    worked_off=_worked_off,
)
