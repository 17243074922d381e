"""Every error of the server as problem+json."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from starlette.exceptions import HTTPException

from duly.errors import (
    BadSetting,
    Busy,
    Conflict,
    DulyError,
    InProgress,
    InvalidInput,
    NotFound,
    Outdated,
    StoreUnavailable,
    UnreadableRule,
)
from duly.surfaces.http.protocol.responses import Reply, Scope, reply

logger = logging.getLogger("duly.http")
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 1
STATUS: dict[type[DulyError], int] = {
    BadSetting: 500,
    InvalidInput: 422,
    NotFound: 404,
    Outdated: 412,
    Conflict: 409,
    UnreadableRule: 409,
    StoreUnavailable: 503,
    Busy: 429,
}
LATER = (429, 503)
LATER_HEADER = {"retry-after": str(RETRY_AFTER_SECONDS)}


class Problem(msgspec.Struct, frozen=True):
    """An error, as in RFC 9457."""

    status: int
    title: str
    detail: str
    type: str = "about:blank"
    field: str | UnsetType = UNSET
    """Which part of the request is invalid."""


class EmptyBody(HTTPException):
    """A required body is missing."""

    def __init__(self) -> None:
        super().__init__(400, "the body is empty; give a JSON document")


class Errors(msgspec.Struct, frozen=True):
    """How the errors of some routes are encoded, and how OpenAPI describes that."""

    reply: Callable[[Scope, Exception], Reply]
    kind: Any
    name: str
    media: str
    never: tuple[int, ...] = ()
    """Statuses that these routes never answer with."""


def problem_reply(scope: Scope, error: Exception) -> Reply:
    """The response to an error."""
    if isinstance(error, HTTPException):
        field = "body" if isinstance(error, EmptyBody) else UNSET
        return _sent(_problem(error.status_code, error.detail, field), error.headers)
    problem = problem_of(error) if isinstance(error, DulyError) else _problem(500, "")
    if problem.status == 500:
        return _failed(scope, error)
    return _sent(problem, LATER_HEADER if isinstance(error, InProgress) else later(problem))


def problem_of(error: DulyError) -> Problem:
    """The problem for an error of duly itself."""
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
    field = error.field if isinstance(error, InvalidInput) else UNSET
    return _problem(status, str(error), field)


def later(problem: Problem) -> dict[str, str]:
    """The header Retry-After, if the status has one."""
    return LATER_HEADER if problem.status in LATER else {}


def request_line(scope: Scope) -> str:
    """Method and path as received, for the log."""
    return f"{scope['method']} {scope.get('raw_path', b'').decode('ascii', 'replace')}"


def _failed(scope: Scope, error: Exception) -> Reply:
    """The response to an unexpected error; the log has the details."""
    logger.error("%s failed", request_line(scope), exc_info=error)
    return _sent(_problem(500, "internal error; see the server's log"))


def _problem(status: int, detail: str, field: str | UnsetType = UNSET) -> Problem:
    return Problem(status, HTTPStatus(status).phrase, detail, field=field)


def _sent(problem: Problem, headers: Mapping[str, str] | None = None) -> Reply:
    return reply(problem.status, problem, dict(headers or {}), MEDIA_TYPE)


PROBLEMS = Errors(problem_reply, Problem, "Problem", MEDIA_TYPE)
