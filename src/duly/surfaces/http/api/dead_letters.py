"""`/v1/dead-letters`: found, grouped, retried and discarded, one by one or many."""

from __future__ import annotations

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, SkipValidation

from duly.ports import DeadGroup
from duly.surfaces.http.bodies import asked
from duly.surfaces.http.cursors import Page
from duly.surfaces.http.served import Served
from duly.surfaces.http.shapes.dead_letters import (
    DeadQuery,
    Discard,
    GroupQuery,
    Moved,
    Retry,
    carried_out,
    counted,
)
from duly.surfaces.http.shapes.deliveries import DeliveryRecord, record

Wanted = NamedDependency[SkipValidation[DeadQuery]]
QUERY = {"wanted": asked(DeadQuery)}


@get("/dead-letters", dependencies=QUERY)
async def list_(duly_app: Served, wanted: Wanted) -> Page[DeliveryRecord]:
    """List dead letters, the latest first."""
    found = await duly_app.dead_letters.page(
        wanted.filter(), before=wanted.cursor, limit=wanted.limit
    )
    return Page([record(each, DeliveryRecord) for each in found.items], found.next)


@get("/dead-letters/groups", dependencies={"wanted": asked(GroupQuery)})
async def groups(
    duly_app: Served, wanted: NamedDependency[SkipValidation[GroupQuery]]
) -> Page[DeadGroup]:
    """Dead letters by what their errors have in common, the most frequent first."""
    found = await duly_app.dead_letters.groups(wanted.filter(), limit=wanted.limit)
    return Page(list(found), None)


@post("/dead-letters/retry", status_code=200, opt={"repeatable": True})
async def retry(duly_app: Served, data: JSONBody[Retry]) -> Moved:
    """Try those that match again; of each stream the earliest goes first."""
    wanted = data.filter()
    matching = await duly_app.dead_letters.count(wanted)
    if data.dry_run:
        return counted(matching)
    moves = duly_app.dead_letters.retry_all(
        wanted, rate=data.rate, reset_attempts=data.reset_attempts
    )
    return await carried_out(matching, moves, duly_app.clock, data.rate)


@post("/dead-letters/discard", status_code=200, opt={"repeatable": True})
async def discard(duly_app: Served, data: JSONBody[Discard]) -> Moved:
    """Give those that match up for good, with a note why; a stream that one blocked goes on."""
    wanted = data.filter()
    matching = await duly_app.dead_letters.count(wanted)
    if data.dry_run:
        return counted(matching)
    moves = duly_app.dead_letters.discard_all(wanted, data.note)
    return await carried_out(matching, moves, duly_app.clock)


ROUTES = [list_, groups, retry, discard]
