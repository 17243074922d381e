"""`/v1/deliveries`: accept, list, show and move deliveries."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from duly.domain.endpoints.targets import target_of
from duly.errors import InvalidInput, NotFound
from duly.records.attempt import HistoryEntry
from duly.records.dead_letter import BulkResult
from duly.records.delivery import (
    Accepted,
    Delivery,
    DeliveryCounts,
    DeliveryDetail,
    ExplainedDelivery,
    NewDelivery,
)
from duly.records.page import Page
from duly.services.deliveries.handles import wait_seconds
from duly.services.namespace import Namespace
from duly.surfaces.http.deliveries.bodies import (
    CountsQuery,
    DeliveryQuery,
    LateQuery,
    PendingMove,
    StuckQuery,
    WaitQuery,
)
from duly.surfaces.http.deliveries.bulk_bodies import field_of
from duly.surfaces.http.protocol.backpressure import SINGLE
from duly.surfaces.http.protocol.bodies import seconds
from duly.surfaces.http.protocol.bulk import run_bulk
from duly.surfaces.http.protocol.decoding import checked
from duly.surfaces.http.protocol.hangups import while_connected
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.responses import Answer
from duly.surfaces.http.protocol.routing import Other, get, post

KNOWN = Other(Accepted, "Its key is known: this is that delivery.")


@post("/deliveries", also={200: KNOWN}, repeatable=True, share=SINGLE, operation_id="deliver")
async def accept(app: Namespace, request: Request, body: NewDelivery) -> Answer[Accepted]:
    """Accept a delivery; it is on disk when this answers."""
    with request.place():
        accepted = await _accept(app, body, request.seed)
    status = 200 if accepted.known else 201
    return Answer(accepted, status, {"location": f"/v1/deliveries/{accepted.id}"})


async def _accept(app: Namespace, new: NewDelivery, id: str | None) -> Accepted:
    options = msgspec.structs.asdict(new)
    target, payload = target_of(options.pop("target")), checked(options.pop("payload"))
    try:
        return await app.deliver(target, payload, id=id, **options)
    except NotFound as error:
        # The body names a target or batch that does not exist; the path is right.
        raise InvalidInput(field_of(error), str(error)) from error


@get("/deliveries", operation_id="list_deliveries")
async def list_(app: Namespace, query: DeliveryQuery) -> Page[Delivery]:
    """List deliveries, newest first.

    Those of one stream are in its order, those of one schedule by their occurrences. With `sort`
    set to lateness, the most late come first; it takes `since` and `until` if there are many.
    """
    return await app.deliveries.page(**query.wanted())


@get("/deliveries/counts", operation_id="count_deliveries")
async def counts(app: Namespace, query: CountsQuery) -> DeliveryCounts:
    """Count deliveries by state, up to 10,000 of each.

    Of the states in `capped` there may be more: only the newest 10,000 deliveries were examined.
    """
    return await app.deliveries.counts(**msgspec.structs.asdict(query))


@get("/deliveries/late", operation_id="list_late_deliveries")
async def late(app: Namespace, query: LateQuery) -> Page[Delivery]:
    """List deliveries that are due and not claimed, longest waiting first."""
    grace = None if query.grace is None else seconds("grace", query.grace)
    found = await app.stats.late(grace, limit=query.limit, payloads=query.payloads)
    return Page(list(found), None)


@get("/deliveries/stuck", operation_id="list_stuck_deliveries")
async def stuck(app: Namespace, query: StuckQuery) -> Page[ExplainedDelivery]:
    """List deliveries that need an intervention, and why."""
    held_for = seconds("held_for", query.held_for)
    found = await app.stats.stuck(held_for, limit=query.limit, payloads=query.payloads)
    return Page(list(found), None)


@get("/deliveries/{id}", operation_id="get_delivery")
async def show(app: Namespace, request: Request, id: str, query: WaitQuery) -> DeliveryDetail:
    """One delivery with its payload, result, attempts, steps, and what it waits for.

    With `wait`, the answer comes when the delivery has ended, or after that time.
    """
    if seconds := wait_seconds(query.wait):
        await while_connected(request.receive, _wait(app, id, seconds))
    return await app.deliveries.detail(id)


async def _wait(app: Namespace, id: str, seconds: float) -> None:
    with suppress(asyncio.CancelledError):  # nobody listens any more
        await app.deliveries.detail(id, wait=seconds)


@get("/deliveries/{id}/moves", operation_id="list_delivery_moves")
async def moves(app: Namespace, id: str) -> list[HistoryEntry]:
    """Everything that happened to it, attempts and other changes, with all details."""
    return list(await app.deliveries.history(id))


@post("/deliveries/{id}/retry", status=200, operation_id="retry_delivery")
async def retry(app: Namespace, id: str) -> Delivery:
    """Retry a dead letter with all its attempts, or a waiting delivery now."""
    return await app.deliveries.retry(id)


@post("/deliveries/{id}/cancel", status=200, operation_id="cancel_delivery")
async def cancel(app: Namespace, id: str) -> Delivery:
    """Cancel a pending delivery, or ask for it if it runs.

    A running one is cancelled within a second or two, if its handler obeys; see `cancel_asked_at`.
    """
    return await app.deliveries.cancel(id)


@post("/deliveries/{id}/release", status=200, operation_id="release_delivery")
async def release(app: Namespace, id: str) -> DeliveryDetail:
    """Let those behind a failed head of a stream proceed."""
    await app.streams.release_delivery(id)
    return await app.deliveries.detail(id)


@post("/deliveries/cancel", status=200, repeatable=True, operation_id="cancel_deliveries")
async def cancel_all(app: Namespace, request: Request, body: PendingMove) -> BulkResult:
    """Cancel the pending deliveries that match, or ask for it those that run.

    Only with `state` set to processing are those that run asked, and no others.

    Repeat it with the `until` of its answer until it is `finished`.
    """
    matching = await app.deliveries.count(**body.filter())
    moves = app.deliveries.cancel_all(**body.filter())
    return await run_bulk(request, app.clock, body, matching, moves)


@post("/deliveries/retry", status=200, repeatable=True, operation_id="retry_deliveries")
async def retry_all(app: Namespace, request: Request, body: PendingMove) -> BulkResult:
    """Make the pending deliveries that match, and are due later, due now.

    Repeat it with the `until` of its answer until it is `finished`.
    """
    matching = await app.deliveries.count(waiting=True, **body.filter())
    moves = app.deliveries.retry_all(**body.filter())
    return await run_bulk(request, app.clock, body, matching, moves)


ROUTES = [
    cancel_all,
    retry_all,
    accept,
    list_,
    counts,
    late,
    stuck,
    show,
    moves,
    retry,
    cancel,
    release,
]
