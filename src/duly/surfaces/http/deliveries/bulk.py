"""`POST /v1/deliveries/bulk`: many deliveries in one call, each independently or all or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duly.domain.deliveries.identifiers import sibling
from duly.errors import InvalidInput, NotFound
from duly.records.delivery import Accepted
from duly.services.namespace import Namespace
from duly.surfaces.http.deliveries import bulk_bodies
from duly.surfaces.http.deliveries.bulk_bodies import (
    MOST,
    NDJSON,
    BulkAnswer,
    BulkQuery,
    Decoded,
    Listed,
)
from duly.surfaces.http.protocol.backpressure import BULK
from duly.surfaces.http.protocol.decoding import check_media
from duly.surfaces.http.protocol.items import Items
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.responses import JSON
from duly.surfaces.http.protocol.routing import post

BODY_LIMIT = 64 * 1024 * 1024


LINES = {
    "schema": {"type": "string", "description": "a delivery as JSON on each line"},
    "example": '{"target": "report", "payload": 1}\n{"target": "report", "payload": 2}\n',
}


@post(
    "/deliveries/bulk",
    status=200,
    operation_id="deliver_many",
    body=Listed,
    content={NDJSON[0]: LINES},
    body_limit=BODY_LIMIT,
    repeatable=True,
    share=BULK,
)
async def accept_bulk(
    app: Namespace,
    request: Request,
    query: BulkQuery,
) -> BulkAnswer:
    """Accept up to 10 000 deliveries: an array, or a line for each (NDJSON).

    The answer has the id or the problem of each, in the same order. With `atomic=true` they are
    stored in one transaction; if one is refused, none is stored and its problem is the answer.
    """
    seed, turns = request.seed, request.shared.turns
    check_media(request, JSON, *NDJSON)
    with request.counted_body() as body:
        items = Items(body, turns, MOST, request.shared.body_limit)
        is_array = request.media_type == JSON
        found = await (items.of_array() if is_array else items.of_lines())
        given = await bulk_bodies.decoded(
            found, lambda place: None if seed is None else sibling(seed, place), turns
        )
        with request.place():
            accepted = (
                await _all_or_none(app, _all_valid(given))
                if query.atomic
                else await app.deliver_each(given)
            )
        return await bulk_bodies.answered(accepted, turns)


async def _all_or_none(app: Namespace, given: list[dict[str, Any]]) -> Sequence[Accepted]:
    try:
        return await app.deliver_many(given)
    except NotFound as error:
        raise InvalidInput(bulk_bodies.field_of(error), str(error)) from error


def _all_valid(given: list[Decoded]) -> list[dict[str, Any]]:
    for place, each in enumerate(given):
        if isinstance(each, InvalidInput):
            raise InvalidInput(f"[{place}].{each.field}", each.problem)
    return [each for each in given if isinstance(each, dict)]


ROUTES = [accept_bulk]
