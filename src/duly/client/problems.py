"""The meaning of a server's answer: the value, or the error that an App would raise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

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
"""The answer for a path without a route, unlike that for a resource that does not exist."""
NO_CONTENT = 204
Value = TypeVar("Value")


class Reply(msgspec.Struct, frozen=True):
    """A server's answer; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media(self) -> str:
        """The media type that it claims to have."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Missing(NotFound):
    """The server answered that a resource does not exist."""

    def __init__(self, detail: str) -> None:
        DulyError.__init__(self, detail)
        self.kind = self.name = ""


class Problem(msgspec.Struct, frozen=True):
    """The server's description of what is wrong."""

    detail: str
    field: str = ""


def value(server: str, reply: Reply, kind: type[Value]) -> Value:
    """The value in the answer; a refusal is raised as the error that an App would raise."""
    if not 200 <= reply.status < 300:
        raise _error(server, reply)
    if reply.status == NO_CONTENT:
        return msgspec.convert(None, kind)
    if reply.media != JSON:
        raise _stranger(server, reply)
    return read(server, reply.body, kind)


def read(server: str, body: bytes, kind: type[Value]) -> Value:
    """A value from its JSON; StoreUnavailable if it is not such a value."""
    try:
        return _decoded(body, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreUnavailable(
            f"the answer of the server at {server} cannot be read by this version: {error}"
        ) from error


def _decoded(body: bytes, kind: type[Value]) -> Value:
    # The decoder does not check raw parts, such as payloads.
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
            f"the server at {server} has no such operation; it is of another version"
        )
    meaning = MEANINGS.get(reply.status, _failed)
    return meaning(problem)


def _stranger(server: str, reply: Reply) -> StoreUnavailable:
    place = reply.headers.get("location")
    hint = f", and points to {place}" if place and 300 <= reply.status < 400 else ""
    answer = f"status {reply.status}, {reply.media or 'no content type'}"
    return StoreUnavailable(f"{server} answers, but is not a duly server ({answer}){hint}")


def _invalid(problem: Problem) -> InvalidInput:
    field = problem.field or "request"
    return InvalidInput(field, problem.detail.removeprefix(f"{field}: "))


def _failed(problem: Problem) -> DulyError:
    return DulyError(f"the server answered: {problem.detail}")


MEANINGS: dict[int, Callable[[Problem], DulyError]] = {
    401: lambda problem: BadSetting("key", f"{problem.detail}; commands read it from DULY_KEY"),
    403: lambda problem: BadSetting("key", problem.detail),
    404: lambda problem: Missing(problem.detail),
    409: lambda problem: Conflict(problem.detail),
    412: lambda problem: Conflict(problem.detail),
    413: lambda problem: InvalidInput("payload", problem.detail),
    421: lambda problem: BadSetting("server", problem.detail),
    422: _invalid,
    429: lambda problem: Busy(problem.detail),
    503: lambda problem: StoreUnavailable(f"the server answered: {problem.detail}"),
}


def whole(document: Any) -> bytes:
    """A body without the values that are None."""
    given = {name: each for name, each in document.items() if each is not None}
    return msgspec.json.encode(given)
