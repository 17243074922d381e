"""`duly schedules orphans`: list and remove schedules that left the code."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from duly.records.schedule import OrphanedSchedule, RemovedOrphans
from duly.surfaces.cli.deliveries.commands import Limit, checked_limit
from duly.surfaces.cli.terminal.confirmation import Yes, confirmed
from duly.surfaces.cli.terminal.flags import COMMON, After, Backend, Common, backend
from duly.surfaces.cli.terminal.listing import Columns, answer_list
from duly.surfaces.cli.terminal.output import answer, cell

COLUMNS = Columns("name declared_in program left_at next_at target")
PAGE = 200
SHOWN = 20
"""How many names the question has."""


async def orphans(
    *,
    remove: Annotated[bool, Parameter(negative=(), help="Remove all of them.")] = False,
    yes: Yes = False,
    after: After = "",
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List schedules that code declared and no longer declares, or remove them.

    They still deliver. A removal cancels their pending deliveries; attempts in progress continue.
    Schedules that were not declared by code, or still are by a live worker, are never listed.
    """
    checked_limit(limit)
    async with backend(common) as app:
        if remove:
            removed = await _remove(app, yes)
            text = f"{len(removed)} removed"
            return answer(common.json, RemovedOrphans(removed), lambda: text)
        found = await app.schedules.orphans(after=after, limit=limit + 1)
    return answer_list(common, found, COLUMNS, limit, next_from="name")


async def _remove(app: Backend, yes: bool) -> list[str]:
    found = await _all(app)
    if not found or not (yes or confirmed(_question(found))):
        return []
    return list(await app.schedules.remove_orphans([each.name for each in found]))


async def _all(app: Backend) -> list[OrphanedSchedule]:
    found: list[OrphanedSchedule] = []
    while page := await app.schedules.orphans(after=found[-1].name if found else "", limit=PAGE):
        found += page
    return found


def _question(found: list[OrphanedSchedule]) -> str:
    names = [f"  {cell(each.name)}, declared in {each.declared_in}" for each in found[:SHOWN]]
    more = [f"  and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    lines = "\n".join([*names, *more])
    return f"The code no longer declares these schedules:\n{lines}\nRemove them for good?"
