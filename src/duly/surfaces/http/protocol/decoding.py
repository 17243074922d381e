"""Decodes requests strictly, with the structs that also document them."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from typing import Any, get_args, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from starlette.exceptions import HTTPException

from duly.domain import documents
from duly.domain.deliveries.payloads import Checked
from duly.errors import InvalidInput, misfit
from duly.surfaces.http.protocol.problems import EmptyBody
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.responses import JSON
from duly.surfaces.http.protocol.turns import Turns

UNKNOWN_CHOICE = re.compile("Invalid enum value (.*)", re.DOTALL)
DEEPEST = documents.DEPTH_LIMIT + 1
"""How deep a body may be nested: a payload within an object."""


async def body_of(request: Request) -> Any:
    """The JSON body, decoded as its route declares; payloads in it stay bytes."""
    route, body = request.route, await request.body()
    if not body:
        if route.is_body_optional:
            return None
        raise EmptyBody
    check_media(request, JSON)
    if len(body) <= documents.LARGE:
        return decoded(body, route.body_kind)
    return await decoded_in_slices(body, route.body_kind, request.shared.turns)


def query_of(request: Request) -> Any:
    """The query decoded as a struct; unknown parameters are refused."""
    text = request.scope["query_string"].decode("utf-8", "replace")
    given: dict[str, list[str]] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        given.setdefault(name, []).append(value)
    single = {name: _single(name, values) for name, values in given.items()}
    try:
        return msgspec.convert(single, request.route.query, strict=False)
    except msgspec.ValidationError as error:
        raise _misfit(error, request.route.query) from None


def check_query(request: Request) -> None:
    """Refuse query parameters that the route does not take, instead of ignoring them."""
    if request.route.query is None and request.scope["query_string"]:
        raise InvalidInput("query", "this route takes no query parameters")


def check_media(request: Request, *allowed: str) -> None:
    """415 if the content type of the body is not one of those allowed."""
    given = request.media_type
    if given not in allowed:
        problem = f"{given!r} is not supported here" if given else "it has no content-type"
        raise HTTPException(
            415, f"{problem}; send it with the header content-type: {' or '.join(allowed)}"
        )


def decoded(body: bytes, kind: Any) -> Any:
    """A small JSON document as a value of that type; an error names the invalid field.

    For documents of any size, use `decoded_in_slices`.
    """
    try:
        found = decoder(kind).decode(body)
        # Raw parts, such as a payload, are checked to be JSON only here.
        documents.check(body, DEEPEST)
    except Exception as error:
        raise refusal(error, kind) from None
    return found


async def decoded_in_slices(body: bytes, kind: Any, turns: Turns) -> Any:
    """The same for a document of any size: a large one is checked in slices."""
    if len(body) <= documents.LARGE:
        return decoded(body, kind)
    try:
        found = decoder(kind).decode(body)
        await turns.through(documents.checking(body, DEEPEST))
    except Exception as error:
        raise refusal(error, kind) from None
    return found


def refusal(error: Exception, kind: Any) -> Exception:
    """The error for the sender of an invalid document."""
    if isinstance(error, documents.Unfit):
        return unfit(error, kind)
    if isinstance(error, msgspec.ValidationError):
        return _misfit(error, kind)
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError):
        return HTTPException(400, f"the body is not JSON: {error}")
    if isinstance(error, RecursionError):
        return InvalidInput("body", "it is nested too deep")
    return error


def _misfit(error: msgspec.ValidationError, kind: Any) -> InvalidInput:
    """The field and its problem; for an enumeration with the message of the domain."""
    found = misfit(error)
    value = UNKNOWN_CHOICE.fullmatch(found.problem)
    choices = value and _choices(kind, found.field)
    if not value or not choices:
        return found
    return InvalidInput(found.field, f"{value[1]} is none of {', '.join(choices)}")


def _choices(kind: Any, field: str) -> list[str]:
    hint = get_type_hints(kind).get(field) if isinstance(kind, type) else None
    for each in (hint, *get_args(hint)):
        if isinstance(each, type) and issubclass(each, StrEnum):
            return list(each)
    return []


def unfit(error: documents.Unfit, kind: Any) -> InvalidInput:
    """The error that names the field; only payloads are nested deep or have large numbers."""
    within = not isinstance(error, documents.Twice) and hasattr(kind, "payload")
    return InvalidInput("payload" if within else "body", str(error))


def checked(payload: msgspec.Raw) -> Checked:
    """A payload of a document that was checked here."""
    return Checked(bytes(payload))


@cache
def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """A decoder for each type, cached because they are expensive to make."""
    return msgspec.json.Decoder(kind)


def _single(name: str, values: list[str]) -> str:
    if len(values) > 1:
        raise InvalidInput(name, f"it is given {len(values)} times; give it once")
    return values[0]
