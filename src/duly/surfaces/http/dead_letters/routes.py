"""`/v1/dead-letters`: listed, grouped, retried, edited and discarded."""

from __future__ import annotations

from collections.abc import AsyncIterator

from duly.records.dead_letter import BulkProgress, BulkResult, DeadLetterGroup
from duly.records.delivery import Delivery, ExplainedDelivery
from duly.services.namespace import Namespace
from duly.surfaces.http.dead_letters.bodies import (
    DeadQuery,
    Discard,
    DiscardOne,
    Edit,
    GroupQuery,
    PoisonQuery,
    Retry,
    RetryOne,
    Which,
)
from duly.surfaces.http.protocol.bulk import run_bulk
from duly.surfaces.http.protocol.decoding import checked
from duly.surfaces.http.protocol.pages import Page
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.routing import get, post


@get("/dead-letters", operation_id="list_dead_letters")
async def list_(app: Namespace, query: DeadQuery) -> Page[Delivery]:
    """List dead letters, latest first."""
    return await app.dead_letters.page(
        query, before=query.cursor, limit=query.limit, payloads=query.payloads
    )


@get("/dead-letters/groups", operation_id="list_dead_letter_groups")
async def groups(app: Namespace, query: GroupQuery) -> Page[DeadLetterGroup]:
    """Dead letters by fingerprint, the largest group first.

    A filter by reason, fingerprint, target and `since` counts all dead letters; any other one
    counts only among the latest 5,000.
    """
    found = await app.dead_letters.groups(query, limit=query.limit)
    return Page(list(found), None)


@post("/dead-letters/retry", status=200, repeatable=True, operation_id="retry_dead_letters")
async def retry(app: Namespace, request: Request, body: Retry) -> BulkResult:
    """Retry those that match; in each stream the earliest is first."""
    moves = app.dead_letters.retry_all(body, rate=body.rate, reset_attempts=body.reset_attempts)
    return await _moved(app, request, body, moves, body.rate)


@post("/dead-letters/discard", status=200, repeatable=True, operation_id="discard_dead_letters")
async def discard(app: Namespace, request: Request, body: Discard) -> BulkResult:
    """Cancel those that match; the note is the reason. Streams that they blocked continue."""
    return await _moved(app, request, body, app.dead_letters.discard_all(body, body.note))


async def _moved(
    app: Namespace,
    request: Request,
    body: Which,
    moves: AsyncIterator[BulkProgress],
    rate: float | None = None,
) -> BulkResult:
    body.check()
    matching = await app.dead_letters.count(body)
    return await run_bulk(request, app.clock, body, matching, moves, rate)


@get("/dead-letters/poison", operation_id="list_poison_candidates")
async def poison(app: Namespace, query: PoisonQuery) -> Page[ExplainedDelivery]:
    """List deliveries whose workers died, optionally also those with one attempt left."""
    found = await app.dead_letters.poison_candidates(
        limit=query.limit, last_attempts=query.last_attempts, payloads=query.payloads
    )
    return Page(list(found), None)


@post("/dead-letters/{id}/retry", status=200, operation_id="retry_dead_letter")
async def retry_one(app: Namespace, id: str, body: RetryOne | None = None) -> Delivery:
    """Retry one, at its position in its stream; 409 if it is not dead."""
    reset = body is None or body.reset_attempts
    return await app.dead_letters.retry(id, reset_attempts=reset)


@post("/dead-letters/{id}/edit", status=200, operation_id="edit_dead_letter")
async def edit_one(app: Namespace, id: str, body: Edit) -> Delivery:
    """Replace the payload of one and retry it with all its attempts; 409 if it is not dead."""
    return await app.dead_letters.edit(id, checked(body.payload))


@post("/dead-letters/{id}/discard", status=200, operation_id="discard_dead_letter")
async def discard_one(app: Namespace, id: str, body: DiscardOne) -> Delivery:
    """Cancel one; the note is the reason. A stream that it blocked continues."""
    return await app.dead_letters.discard(id, body.note)


ROUTES = [list_, groups, poison, retry, discard, retry_one, edit_one, discard_one]
