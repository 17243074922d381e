"""`POST /v1/deliveries/bulk`: many in one call, each for itself or all or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from litestar import post
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from duly.domain.deliveries.delivery import Accepted
from duly.domain.deliveries.identifiers import sibling
from duly.errors import InvalidInput, NotFound
from duly.services.namespace import Namespace
from duly.surfaces.http.access.backpressure import BULK, body_of, place_for
from duly.surfaces.http.deliveries import bulk_bodies
from duly.surfaces.http.deliveries.bulk_bodies import (
    MOST,
    NDJSON,
    Asked,
    BulkAnswer,
    BulkQuery,
    Listed,
)
from duly.surfaces.http.protocol.decoding import JSON, check_media
from duly.surfaces.http.protocol.decoding import asked as asked_query
from duly.surfaces.http.protocol.items import Items
from duly.surfaces.http.protocol.request_context import AnyRequest, Served, seed_of
from duly.surfaces.http.protocol.turns import Turns

BODY_LIMIT = 64 * 1024 * 1024


def _body() -> Any:
    # As a function, since options are copied and what a kind is annotated with cannot be.
    return Listed


LINES = {
    "schema": {"type": "string", "description": "a delivery as JSON on each line"},
    "example": '{"target": "report", "payload": 1}\n{"target": "report", "payload": 2}\n',
}
OPT = {
    "repeatable": True,
    "body": _body,
    "media": (JSON, *NDJSON),
    "content": {NDJSON[0]: LINES},
} | BULK


@post(
    "/deliveries/bulk",
    status_code=200,
    dependencies={"wanted": asked_query(BulkQuery)},
    request_max_body_size=BODY_LIMIT,
    opt=OPT,
    operation_id="deliver_many",
)
async def accept_bulk(
    duly_app: Served,
    request: AnyRequest,
    wanted: NamedDependency[SkipValidation[BulkQuery]],
) -> BulkAnswer:
    """Accept up to 10 000 deliveries: an array, or a line for each (NDJSON).

    Each is answered in its place with its id or its problem. With `atomic=true` they are stored in
    one transaction, and when one cannot be taken none is: its problem is then the answer.
    """
    seed = seed_of(request)
    turns: Turns = request.app.state.turns
    check_media(request, JSON, *NDJSON)
    with body_of(request) as body:
        items = Items(body, turns, MOST, request.app.state.body_limit)
        is_array = request.content_type[0] == JSON
        found = await (items.of_array() if is_array else items.of_lines())
        given = await bulk_bodies.asked(
            found, lambda place: None if seed is None else sibling(seed, place), turns
        )
        with place_for(request):
            accepted = (
                await _all_or_none(duly_app, _all_right(given))
                if wanted.atomic
                else await duly_app.deliver_each(given)
            )
        return await bulk_bodies.answered(accepted, turns)


async def _all_or_none(app: Namespace, given: list[dict[str, Any]]) -> Sequence[Accepted]:
    try:
        return await app.deliver_many(given)
    except NotFound as error:
        raise InvalidInput("target", str(error)) from error


def _all_right(given: list[Asked]) -> list[dict[str, Any]]:
    for place, each in enumerate(given):
        if isinstance(each, InvalidInput):
            raise InvalidInput(f"[{place}].{each.field}", each.problem)
    return [each for each in given if isinstance(each, dict)]


ROUTES = [accept_bulk]
