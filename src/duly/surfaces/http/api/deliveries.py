"""`/v1/deliveries`: accepted, looked at and moved."""

from __future__ import annotations

from litestar import Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody

from duly.domain.errors import InvalidInput, NotFound
from duly.domain.states import State
from duly.surfaces.http.served import Served
from duly.surfaces.http.shapes.deliveries import (
    AcceptedDelivery,
    DeliveryRecord,
    NewDelivery,
    record,
)

KNOWN = ResponseSpec(AcceptedDelivery, description="Its key is known: this is that delivery.")


@post("/deliveries", responses={200: KNOWN})
async def accept(duly_app: Served, data: JSONBody[NewDelivery]) -> Response[AcceptedDelivery]:
    """Accept a delivery; what is answered is on disk."""
    target, payload, options = data.asked()
    try:
        accepted = await duly_app.deliver(target, payload, **options)
    except NotFound as error:
        # It is what the body names that is not there, not what the path does.
        raise InvalidInput("target", str(error)) from error
    state = (await duly_app.get(accepted.id)).state if accepted.known else State.PENDING
    answer = AcceptedDelivery(
        id=accepted.id, state=state, due_at=accepted.due_at, known=accepted.known
    )
    location = {"location": f"/v1/deliveries/{accepted.id}"}
    return Response(answer, status_code=200 if accepted.known else 201, headers=location)


@get("/deliveries/{id:str}")
async def show(duly_app: Served, id: FromPath[str]) -> DeliveryRecord:
    """One delivery with all its facts."""
    found: DeliveryRecord = record(await duly_app.get(id))
    return found


ROUTES = [accept, show]
