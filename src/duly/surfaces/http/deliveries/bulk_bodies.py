"""Request and response bodies of many deliveries at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from duly.domain.endpoints.targets import target_of
from duly.errors import DulyError, InvalidInput, NotFound
from duly.records.delivery import Accepted, NewDelivery
from duly.surfaces.http.protocol.decoding import checked, decoder, refusal
from duly.surfaces.http.protocol.items import EACH, SLICE, Item
from duly.surfaces.http.protocol.problems import Problem, problem_of
from duly.surfaces.http.protocol.turns import Turns

MOST = 10_000
NDJSON = ("application/x-ndjson", "application/ndjson", "application/jsonl")
Listed = Annotated[list[NewDelivery], Meta(max_length=MOST)]
Decoded = dict[str, Any] | InvalidInput
ENCODED_AT_ONCE = 200


class BulkQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to accept many."""

    atomic: Annotated[
        bool, Meta(description="all or none: if one is refused, none is accepted")
    ] = False


class BulkItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one: its id and when it is due, or its problem."""

    id: str | None = None
    due_at: datetime | None = None
    known: bool = False
    problem: Problem | None = None


class BulkAnswer(msgspec.Struct, frozen=True):
    """The result of each, in the order of the request."""

    accepted: int
    known: int
    refused: int
    items: list[BulkItem]


def field_of(error: NotFound) -> str:
    """The field of a delivery that names what does not exist."""
    return "batch" if error.kind == "batch" else "target"


async def answered(results: Sequence[Accepted | DulyError], turns: Turns) -> BulkAnswer:
    """The answer to many."""
    known = sum(isinstance(each, Accepted) and each.known for each in results)
    refused = sum(isinstance(each, DulyError) for each in results)
    items: list[BulkItem] = []
    for start in range(0, len(results), ENCODED_AT_ONCE):
        items += map(_item, results[start : start + ENCODED_AT_ONCE])
        await turns.next()
    return BulkAnswer(len(results) - known - refused, known, refused, items)


def _item(result: Accepted | DulyError) -> BulkItem:
    if isinstance(result, Accepted):
        return BulkItem(result.id, result.due_at, result.known)
    return BulkItem(problem=problem_of(result))


async def decoded(
    items: list[Item], id_of: Callable[[int], str | None], turns: Turns
) -> list[Decoded]:
    """The items as `app.deliver_each` takes them; an error is in the place of its item."""
    found: list[Decoded] = []
    work = 0
    # Popped, so that decoded items are freed: there may be 64 MiB of them.
    items.reverse()
    while items:
        item = items.pop()
        found.append(_decoded(item, id_of(len(found))))
        work += len(item.data) + EACH
        if work >= SLICE:
            work = 0
            await turns.next()
    return found


def _decoded(item: Item, id: str | None) -> Decoded:
    try:
        given: NewDelivery = decoder(NewDelivery).decode(item.data)
        if item.problem is not None:
            raise item.problem
        options = msgspec.structs.asdict(given)
        options |= {"target": target_of(given.target), "payload": checked(given.payload), "id": id}
    except InvalidInput as error:
        return error
    except Exception as error:
        problem_found = refusal(error, NewDelivery)
        if isinstance(problem_found, InvalidInput):
            return problem_found
        raise problem_found from None
    return options
