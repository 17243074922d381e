"""`/v1/deliveries`: accepted, listed, looked at and moved."""

from __future__ import annotations

from duly.domain.endpoints.targets import target_of
from duly.errors import InvalidInput, NotFound
from duly.records.attempt import Attempt
from duly.records.delivery import Accepted
from duly.records.state import State
from duly.services.namespace import Namespace
from duly.surfaces.http.deliveries.bodies import (
    AcceptedDelivery,
    DeliveryDetail,
    DeliveryQuery,
    DeliveryRecord,
    LateQuery,
    NewDelivery,
    StepRecord,
    StuckQuery,
    StuckRecord,
    history,
    record,
    records,
)
from duly.surfaces.http.protocol.backpressure import SINGLE
from duly.surfaces.http.protocol.bodies import seconds, shown
from duly.surfaces.http.protocol.decoding import checked
from duly.surfaces.http.protocol.pages import Page
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.responses import Answer
from duly.surfaces.http.protocol.routing import Other, get, post

KNOWN = Other(AcceptedDelivery, "Its key is known: this is that delivery.")


@post("/deliveries", also={200: KNOWN}, repeatable=True, share=SINGLE, operation_id="deliver")
async def accept(app: Namespace, request: Request, body: NewDelivery) -> Answer[AcceptedDelivery]:
    """Accept a delivery; what is answered is on disk."""
    with request.place():
        accepted = await _take_in(app, body, request.seed)
    state = (await app.get(accepted.id)).state if accepted.known else State.PENDING
    answer = AcceptedDelivery(
        id=accepted.id, state=state, due_at=accepted.due_at, known=accepted.known
    )
    status = 200 if accepted.known else 201
    return Answer(answer, status, {"location": f"/v1/deliveries/{accepted.id}"})


async def _take_in(app: Namespace, new: NewDelivery, id: str | None) -> Accepted:
    options = new.options() | {"id": id}
    try:
        return await app.deliver(target_of(new.target), checked(new.payload), **options)
    except NotFound as error:
        # It is what the body names that is not there, not what the path does.
        raise InvalidInput("target", str(error)) from error


@get("/deliveries", operation_id="list_deliveries")
async def list_(app: Namespace, query: DeliveryQuery) -> Page[DeliveryRecord]:
    """List deliveries, newest first.

    Those of one stream come in its order, those of one schedule by their occurrences.
    """
    found = await app.page(**query.wanted())
    return Page(records(found.items, payloads=query.payloads), found.next)


@get(
    "/deliveries/late",
    operation_id="list_late_deliveries",
)
async def late(app: Namespace, query: LateQuery) -> Page[DeliveryRecord]:
    """List what is due and not under way, longest waiting first."""
    grace = None if query.grace is None else seconds("grace", query.grace)
    found = await app.watch.late(grace, limit=query.limit)
    return Page(records(found, payloads=query.payloads), None)


@get(
    "/deliveries/stuck",
    operation_id="list_stuck_deliveries",
)
async def stuck(app: Namespace, query: StuckQuery) -> Page[StuckRecord]:
    """List what will not move by itself, and why."""
    held_for = seconds("held_for", query.held_for)
    found = await app.watch.stuck(held_for, limit=query.limit)
    payload = query.payloads
    return Page([record(each, StuckRecord, payload=payload, why=why) for each, why in found], None)


@get("/deliveries/{id}", operation_id="get_delivery")
async def show(app: Namespace, id: str) -> DeliveryDetail:
    """One delivery with its payload, attempts, steps, transitions, and what it waits for."""
    return await _detail(app, id)


@get("/deliveries/{id}/moves", operation_id="list_delivery_moves")
async def moves(app: Namespace, id: str) -> list[Attempt]:
    """Everything that moved it, attempts and others, with all that is known of each."""
    return list(await app.attempts(id))


@post("/deliveries/{id}/retry", status=200, operation_id="retry_delivery")
async def retry(app: Namespace, id: str) -> DeliveryDetail:
    """Try a dead letter again, with all its attempts, or a waiting delivery now."""
    await app.retry(id)
    return await _detail(app, id)


@post("/deliveries/{id}/cancel", status=200, operation_id="cancel_delivery")
async def cancel(app: Namespace, id: str) -> DeliveryDetail:
    """Cancel a delivery that is pending."""
    await app.cancel(id)
    return await _detail(app, id)


@post("/deliveries/{id}/release", status=200, operation_id="release_delivery")
async def release(app: Namespace, id: str) -> DeliveryDetail:
    """Let those behind a failed head of a stream go on."""
    await app.streams.release_delivery(id)
    return await _detail(app, id)


async def _detail(app: Namespace, id: str) -> DeliveryDetail:
    delivery = await app.get(id)
    around = await app.outlook(delivery)
    attempts, transitions = history(delivery, await app.attempts(id))
    return record(
        delivery,
        DeliveryDetail,
        endpoint=around.endpoint,
        waits=around.waits,
        attempts_allowed=around.attempts_allowed,
        attempts=attempts,
        steps=[shown(each, StepRecord, result=each.result_json) for each in await app.steps(id)],
        transitions=transitions,
    )


ROUTES = [accept, list_, late, stuck, show, moves, retry, cancel, release]
