"""Many deliveries at once, as the API takes and answers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from litestar.exceptions import ClientException
from msgspec import Meta

from duly.domain.delivery import Accepted
from duly.domain.errors import DulyError, InvalidInput, misfit
from duly.surfaces.http.bodies import decoded, decoder
from duly.surfaces.http.problems import Problem, problem_of
from duly.surfaces.http.shapes.deliveries import NewDelivery, target_of

MOST = 10_000
NDJSON = ("application/x-ndjson", "application/ndjson", "application/jsonl")
Items = Annotated[list[NewDelivery], Meta(max_length=MOST)]
Checked = dict[str, Any] | InvalidInput
Item = TypeVar("Item")


class BulkQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to take many."""

    atomic: Annotated[
        bool, Meta(description="all or nothing: when one cannot be taken, none is")
    ] = False


class BulkItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one: its id, or the problem with it."""

    id: str | None = None
    known: bool = False
    problem: Problem | None = None


class BulkAnswer(msgspec.Struct, frozen=True):
    """What became of each, in the order in which they were given."""

    accepted: int
    known: int
    refused: int
    items: list[BulkItem]


def answered(results: list[Accepted | DulyError]) -> BulkAnswer:
    """The answer to many."""
    known = sum(isinstance(each, Accepted) and each.known for each in results)
    refused = sum(isinstance(each, DulyError) for each in results)
    return BulkAnswer(len(results) - known - refused, known, refused, list(map(_item, results)))


def _item(result: Accepted | DulyError) -> BulkItem:
    if isinstance(result, Accepted):
        return BulkItem(result.id, result.known)
    return BulkItem(problem=problem_of(result))


def items_of(body: bytes, media: str) -> list[NewDelivery | InvalidInput]:
    """The deliveries of a body; what is wrong with one is in its place."""
    if media in NDJSON:
        body = _array(body)
    try:
        found: list[Any] = decoded(body, list[NewDelivery])
    except InvalidInput:
        # Counted first: to look at each by itself takes long when there are millions.
        found = [_single(each) for each in _so_many(_pieces(body))]
    return _so_many(found)


def _so_many(found: list[Item]) -> list[Item]:
    if not 1 <= len(found) <= MOST:
        raise InvalidInput("body", f"it has {len(found)} deliveries; give 1 to {MOST}")
    return found


def _array(lines: bytes) -> bytes:
    try:
        return b"[%s]" % b",".join(decoder(msgspec.Raw).decode_lines(lines))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ClientException(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise InvalidInput("body", "it is nested too deep") from None


def _pieces(body: bytes) -> list[msgspec.Raw]:
    try:
        found: list[msgspec.Raw] = decoder(list[msgspec.Raw]).decode(body)
    except msgspec.ValidationError as error:
        raise misfit(error) from None
    except msgspec.DecodeError as error:
        # Behind the one that does not fit, where nobody had looked yet.
        raise ClientException(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise InvalidInput("body", "it is nested too deep") from None
    return found


def _single(piece: msgspec.Raw) -> NewDelivery | InvalidInput:
    try:
        found: NewDelivery = decoded(bytes(piece), NewDelivery)
    except InvalidInput as error:
        return error
    return found


def asked(
    items: list[NewDelivery | InvalidInput], id_of: Callable[[int], str | None]
) -> list[Checked]:
    """Each as `app.deliver_each` takes it."""
    return [_asked(each, id_of(place)) for place, each in enumerate(items)]


def _asked(given: NewDelivery | InvalidInput, id: str | None) -> Checked:
    if isinstance(given, InvalidInput):
        return given
    try:
        target = target_of(given.target)
    except InvalidInput as error:
        return error
    return {"target": target, "payload": given.payload, "id": id, **given.options()}
