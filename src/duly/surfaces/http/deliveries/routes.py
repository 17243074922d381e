"""`/v1/deliveries`: accepted, listed, looked at and moved."""

from __future__ import annotations

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody, SkipValidation

from duly.domain.deliveries.delivery import Accepted, Attempt
from duly.domain.deliveries.states import State
from duly.errors import InvalidInput, NotFound
from duly.services.namespace import Namespace
from duly.surfaces.http.access.backpressure import SINGLE, place_for
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
    target_of,
)
from duly.surfaces.http.protocol.bodies import seconds, shown
from duly.surfaces.http.protocol.decoding import asked, checked
from duly.surfaces.http.protocol.pages import Page
from duly.surfaces.http.protocol.request_context import AnyRequest, Served, seed_of

KNOWN = ResponseSpec(AcceptedDelivery, description="Its key is known: this is that delivery.")


@post(
    "/deliveries", responses={200: KNOWN}, opt={"repeatable": True} | SINGLE, operation_id="deliver"
)
async def accept(
    duly_app: Served, request: AnyRequest, data: JSONBody[NewDelivery]
) -> Response[AcceptedDelivery]:
    """Accept a delivery; what is answered is on disk."""
    with place_for(request):
        accepted = await take_in(duly_app, data, seed_of(request))
    answer, headers = await answer_to(duly_app, accepted), {"location": location_of(accepted)}
    return Response(answer, status_code=status_of(accepted), headers=headers)


async def take_in(app: Namespace, new: NewDelivery, id: str | None = None) -> Accepted:
    """Have a delivery stored."""
    options = new.options() | {"id": id}
    try:
        return await app.deliver(target_of(new.target), checked(new.payload), **options)
    except NotFound as error:
        # It is what the body names that is not there, not what the path does.
        raise InvalidInput("target", str(error)) from error


async def answer_to(app: Namespace, accepted: Accepted) -> AcceptedDelivery:
    """The yes, with how it stands if it was there already."""
    state = (await app.get(accepted.id)).state if accepted.known else State.PENDING
    return AcceptedDelivery(
        id=accepted.id, state=state, due_at=accepted.due_at, known=accepted.known
    )


def status_of(accepted: Accepted) -> int:
    """200 for one that was there, 201 for one that is new."""
    return 200 if accepted.known else 201


def location_of(accepted: Accepted) -> str:
    """Where it can be looked at."""
    return f"/v1/deliveries/{accepted.id}"


@get("/deliveries", dependencies={"wanted": asked(DeliveryQuery)}, operation_id="list_deliveries")
async def list_(
    duly_app: Served, wanted: NamedDependency[SkipValidation[DeliveryQuery]]
) -> Page[DeliveryRecord]:
    """List deliveries, newest first.

    Those of one stream come in its order, those of one schedule by their occurrences.
    """
    found = await duly_app.page(**wanted.wanted())
    return Page(records(found.items, payloads=wanted.payloads), found.next)


@get(
    "/deliveries/late",
    dependencies={"wanted": asked(LateQuery)},
    operation_id="list_late_deliveries",
)
async def late(
    duly_app: Served, wanted: NamedDependency[SkipValidation[LateQuery]]
) -> Page[DeliveryRecord]:
    """List what is due and not under way, longest waiting first."""
    grace = None if wanted.grace is None else seconds("grace", wanted.grace)
    found = await duly_app.watch.late(grace, limit=wanted.limit)
    return Page(records(found, payloads=wanted.payloads), None)


@get(
    "/deliveries/stuck",
    dependencies={"wanted": asked(StuckQuery)},
    operation_id="list_stuck_deliveries",
)
async def stuck(
    duly_app: Served, wanted: NamedDependency[SkipValidation[StuckQuery]]
) -> Page[StuckRecord]:
    """List what will not move by itself, and why."""
    held_for = seconds("held_for", wanted.held_for)
    found = await duly_app.watch.stuck(held_for, limit=wanted.limit)
    payload = wanted.payloads
    return Page([record(each, StuckRecord, payload=payload, why=why) for each, why in found], None)


@get("/deliveries/{id:str}", operation_id="get_delivery")
async def show(duly_app: Served, id: FromPath[str]) -> DeliveryDetail:
    """One delivery with its payload, attempts, steps, transitions, and what it waits for."""
    return await _detail(duly_app, id)


@get("/deliveries/{id:str}/moves", operation_id="list_delivery_moves")
async def moves(duly_app: Served, id: FromPath[str]) -> list[Attempt]:
    """Everything that moved it, attempts and others, with all that is known of each."""
    return list(await duly_app.attempts(id))


@post("/deliveries/{id:str}/retry", status_code=200, operation_id="retry_delivery")
async def retry(duly_app: Served, id: FromPath[str]) -> DeliveryDetail:
    """Try a dead letter again, with all its attempts, or a waiting delivery now."""
    await duly_app.retry(id)
    return await _detail(duly_app, id)


@post("/deliveries/{id:str}/cancel", status_code=200, operation_id="cancel_delivery")
async def cancel(duly_app: Served, id: FromPath[str]) -> DeliveryDetail:
    """Cancel a delivery that is pending."""
    await duly_app.cancel(id)
    return await _detail(duly_app, id)


@post("/deliveries/{id:str}/release", status_code=200, operation_id="release_delivery")
async def release(duly_app: Served, id: FromPath[str]) -> DeliveryDetail:
    """Let those behind a failed head of a stream go on."""
    await duly_app.streams.release_delivery(id)
    return await _detail(duly_app, id)


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
