"""`/v1/dead-letters`: found, grouped, retried and discarded, one by one or many."""

from __future__ import annotations

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, SkipValidation

from duly.ports import DeadGroup
from duly.surfaces.http.dead_letters.bodies import (
    DeadQuery,
    Discard,
    DiscardOne,
    Edit,
    GroupQuery,
    Moved,
    PoisonQuery,
    Retry,
    RetryOne,
    SuspectRecord,
    carried_out,
    counted,
)
from duly.surfaces.http.deliveries.bodies import DeliveryRecord, record, records
from duly.surfaces.http.protocol.decoding import asked, checked
from duly.surfaces.http.protocol.hangups import while_heard
from duly.surfaces.http.protocol.pages import Page
from duly.surfaces.http.protocol.request_context import AnyRequest, Served

Wanted = NamedDependency[SkipValidation[DeadQuery]]
QUERY = {"wanted": asked(DeadQuery)}


@get("/dead-letters", dependencies=QUERY, operation_id="list_dead_letters")
async def list_(duly_app: Served, wanted: Wanted) -> Page[DeliveryRecord]:
    """List dead letters, the latest first."""
    found = await duly_app.dead_letters.page(
        wanted.filter(), before=wanted.cursor, limit=wanted.limit
    )
    return Page(records(found.items, payloads=wanted.payloads), found.next)


@get(
    "/dead-letters/groups",
    dependencies={"wanted": asked(GroupQuery)},
    operation_id="list_dead_letter_groups",
)
async def groups(
    duly_app: Served, wanted: NamedDependency[SkipValidation[GroupQuery]]
) -> Page[DeadGroup]:
    """Dead letters by what their errors have in common, the most frequent first.

    By reason, fingerprint, target and `since` all are counted; else the latest 5,000 are looked at.
    """
    found = await duly_app.dead_letters.groups(wanted.filter(), limit=wanted.limit)
    return Page(list(found), None)


@post(
    "/dead-letters/retry",
    status_code=200,
    opt={"repeatable": True},
    operation_id="retry_dead_letters",
)
async def retry(duly_app: Served, request: AnyRequest, data: JSONBody[Retry]) -> Moved:
    """Try those that match again; of each stream the earliest goes first."""
    wanted = data.filter()
    matching = await duly_app.dead_letters.count(wanted)
    if data.dry_run:
        return counted(matching)
    moves = duly_app.dead_letters.retry_all(
        wanted, rate=data.rate, reset_attempts=data.reset_attempts
    )
    work = carried_out(matching, moves, duly_app.clock, data.seconds, data.rate)
    return await while_heard(request, work)


@post(
    "/dead-letters/discard",
    status_code=200,
    opt={"repeatable": True},
    operation_id="discard_dead_letters",
)
async def discard(duly_app: Served, request: AnyRequest, data: JSONBody[Discard]) -> Moved:
    """Give those that match up for good, with a note why; a stream that one blocked goes on."""
    wanted = data.filter()
    matching = await duly_app.dead_letters.count(wanted)
    if data.dry_run:
        return counted(matching)
    moves = duly_app.dead_letters.discard_all(wanted, data.note)
    work = carried_out(matching, moves, duly_app.clock, data.seconds)
    return await while_heard(request, work)


@get(
    "/dead-letters/poison",
    dependencies={"wanted": asked(PoisonQuery)},
    operation_id="list_poison_candidates",
)
async def poison(
    duly_app: Served, wanted: NamedDependency[SkipValidation[PoisonQuery]]
) -> Page[SuspectRecord]:
    """List deliveries whose workers died, on request also those with one attempt left."""
    found = await duly_app.dead_letters.poison_candidates(
        limit=wanted.limit, last_attempts=wanted.last_attempts
    )
    payload = wanted.payloads
    return Page(
        [record(each.delivery, SuspectRecord, payload=payload, why=each.why) for each in found],
        None,
    )


@post("/dead-letters/{id:str}/retry", status_code=200, operation_id="retry_dead_letter")
async def retry_one(
    duly_app: Served, id: FromPath[str], data: JSONBody[RetryOne | None] = None
) -> DeliveryRecord:
    """Try one again, in its place if it has a stream; 409 if it is not dead."""
    reset = data is None or data.reset_attempts
    return record(await duly_app.dead_letters.retry(id, reset_attempts=reset), DeliveryRecord)


@post("/dead-letters/{id:str}/edit", status_code=200, operation_id="edit_dead_letter")
async def edit_one(duly_app: Served, id: FromPath[str], data: JSONBody[Edit]) -> DeliveryRecord:
    """Give one another payload and try it again, with all its attempts; 409 if it is not dead."""
    return record(await duly_app.dead_letters.edit(id, checked(data.payload)), DeliveryRecord)


@post("/dead-letters/{id:str}/discard", status_code=200, operation_id="discard_dead_letter")
async def discard_one(
    duly_app: Served, id: FromPath[str], data: JSONBody[DiscardOne]
) -> DeliveryRecord:
    """Give one up for good, with a note why; a stream that it blocked goes on."""
    return record(await duly_app.dead_letters.discard(id, data.note), DeliveryRecord)


ROUTES = [list_, groups, poison, retry, discard, retry_one, edit_one, discard_one]
