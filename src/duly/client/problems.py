"""What a server's answer means: the value that was asked for, or the error that an App raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from duly.client.messages import Reply
from duly.errors import (
    BadSetting,
    Busy,
    Conflict,
    DulyError,
    InvalidInput,
    NotFound,
    StoreUnavailable,
)

JSON, PROBLEM = "application/json", "application/problem+json"
NO_ROUTE = "Not Found"
"""What is said of a path that no route has, as opposed to a thing that is not there."""
NO_CONTENT = 204
Value = TypeVar("Value")


class Missing(NotFound):
    """The server says that there is no such thing, in its own words."""

    def __init__(self, told: str) -> None:
        DulyError.__init__(self, told)
        self.kind = self.name = ""


class Problem(msgspec.Struct, frozen=True):
    """What went wrong, as the server tells it."""

    detail: str
    field: str = ""


def value(server: str, reply: Reply, kind: type[Value]) -> Value:
    """The value that was asked for; whatever is refused is raised as an App would."""
    if not 200 <= reply.status < 300:
        raise _error(server, reply)
    if reply.status == NO_CONTENT:
        return msgspec.convert(None, kind)
    if reply.media != JSON:
        raise _stranger(server, reply)
    try:
        return _decoded(reply.body, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreUnavailable(
            f"what the server at {server} answers cannot be read by this version: {error}"
        ) from error


def _decoded(body: bytes, kind: type[Value]) -> Value:
    # The decoder does not look into what it leaves as it is, such as payloads.
    body.decode()
    return msgspec.json.decode(body, type=kind)


def _error(server: str, reply: Reply) -> DulyError:
    if reply.media != PROBLEM:
        return _stranger(server, reply)
    try:
        problem = _decoded(reply.body, Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _stranger(server, reply)
    if reply.status == 404 and problem.detail == NO_ROUTE:
        return StoreUnavailable(
            f"the server at {server} does not know how to do this; it is of another version"
        )
    meaning = MEANINGS.get(reply.status, _failed)
    return meaning(problem)


def _stranger(server: str, reply: Reply) -> StoreUnavailable:
    place = reply.headers.get("location")
    hint = f", and points to {place}" if place and 300 <= reply.status < 400 else ""
    said = f"status {reply.status}, {reply.media or 'no kind of document'}"
    return StoreUnavailable(f"{server} answers, but not as a duly server does ({said}){hint}")


def _invalid(problem: Problem) -> InvalidInput:
    field = problem.field or "request"
    return InvalidInput(field, problem.detail.removeprefix(f"{field}: "))


def _failed(problem: Problem) -> DulyError:
    return DulyError(f"the server says: {problem.detail}")


MEANINGS: dict[int, Callable[[Problem], DulyError]] = {
    401: lambda problem: BadSetting("key", f"{problem.detail}; it is read from DULY_KEY"),
    403: lambda problem: BadSetting("key", problem.detail),
    404: lambda problem: Missing(problem.detail),
    409: lambda problem: Conflict(problem.detail),
    412: lambda problem: Conflict(problem.detail),
    413: lambda problem: InvalidInput("payload", problem.detail),
    421: lambda problem: BadSetting("server", problem.detail),
    422: _invalid,
    429: lambda problem: Busy(problem.detail),
    503: lambda problem: StoreUnavailable(f"the server says: {problem.detail}"),
}


def whole(document: Any) -> bytes:
    """A body, without what was not said."""
    said = {name: each for name, each in document.items() if each is not None}
    return msgspec.json.encode(said)
