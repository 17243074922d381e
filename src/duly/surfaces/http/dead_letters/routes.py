"""`/v1/dead-letters`: listed, grouped, retried, edited, discarded, held and given up."""

from __future__ import annotations

from collections.abc import AsyncIterator

from duly.domain.dead_letters import narrowed
from duly.records.dead_letter import BulkProgress, BulkResult, DeadLetterGroup
from duly.records.delivery import Delivery, ExplainedDelivery
from duly.records.recovery import WhichLetters
from duly.services.namespace import Namespace
from duly.surfaces.http.dead_letters.bodies import (
    DeadQuery,
    Edit,
    GroupQuery,
    NoteOne,
    PoisonQuery,
    Release,
    Retry,
    RetryOne,
    Which,
    WithNote,
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
    """Retry those that match; in each stream the earliest is first.

    Held ones are retried only if the filter names their disposition or their ids.
    """
    moves = app.dead_letters.retry_all(body, rate=body.rate, reset_attempts=body.reset_attempts)
    return await _moved(app, request, body, moves, WhichLetters.OPEN, body.rate)


@post("/dead-letters/discard", status=200, repeatable=True, operation_id="discard_dead_letters")
async def discard(app: Namespace, request: Request, body: WithNote) -> BulkResult:
    """Cancel those that match; the note is the reason. Streams that they blocked continue."""
    return await _moved(app, request, body, app.dead_letters.discard_all(body, body.note))


@post("/dead-letters/hold", status=200, repeatable=True, operation_id="hold_dead_letters")
async def hold(app: Namespace, request: Request, body: WithNote) -> BulkResult:
    """Hold those that match: no policy and no bulk retry touches them until they are released."""
    moves = app.dead_letters.hold_all(body, body.note)
    return await _moved(app, request, body, moves, WhichLetters.OPEN)


@post("/dead-letters/release", status=200, repeatable=True, operation_id="release_dead_letters")
async def release(app: Namespace, request: Request, body: Release) -> BulkResult:
    """Release held ones that match; recovery policies apply to them again."""
    moves = app.dead_letters.release_all(body)
    return await _moved(app, request, body, moves, WhichLetters.HELD)


@post("/dead-letters/give-up", status=200, repeatable=True, operation_id="give_up_dead_letters")
async def give_up(app: Namespace, request: Request, body: WithNote) -> BulkResult:
    """Give those that match up for good: they stay dead letters, and nothing retries them."""
    return await _moved(app, request, body, app.dead_letters.give_up_all(body, body.note))


async def _moved(
    app: Namespace,
    request: Request,
    body: Which,
    moves: AsyncIterator[BulkProgress],
    disposition: WhichLetters | None = None,
    rate: float | None = None,
) -> BulkResult:
    body.check()
    wanted = body if disposition is None else narrowed(body, disposition)
    matching = await app.dead_letters.count(wanted)
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
async def discard_one(app: Namespace, id: str, body: NoteOne) -> Delivery:
    """Cancel one; the note is the reason. A stream that it blocked continues."""
    return await app.dead_letters.discard(id, body.note)


@post("/dead-letters/{id}/hold", status=200, operation_id="hold_dead_letter")
async def hold_one(app: Namespace, id: str, body: NoteOne) -> Delivery:
    """Hold one: no policy and no bulk retry touches it until it is released."""
    return await app.dead_letters.hold(id, body.note)


@post("/dead-letters/{id}/release", status=200, operation_id="release_dead_letter")
async def release_one(app: Namespace, id: str) -> Delivery:
    """Release one that is held; recovery policies apply to it again."""
    return await app.dead_letters.release(id)


@post("/dead-letters/{id}/give-up", status=200, operation_id="give_up_dead_letter")
async def give_up_one(app: Namespace, id: str, body: NoteOne) -> Delivery:
    """Give one up for good; it stays a dead letter. A stream that it blocked continues."""
    return await app.dead_letters.give_up(id, body.note)


ROUTES = [
    *(list_, groups, poison, retry, discard, hold, release, give_up),
    *(retry_one, edit_one, discard_one, hold_one, release_one, give_up_one),
]
