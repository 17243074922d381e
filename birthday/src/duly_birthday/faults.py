"""Errors of `/user` in the shape that its callers know: `{error: {code, message, details}}`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from duly.errors import Conflict, DulyError, InvalidInput, StoreUnavailable
from duly_birthday.users.checks import InvalidUser, Problem
from duly_birthday.users.user import UserChanged, UserNotFound

logger = logging.getLogger("duly_birthday.http")
CODES = {
    400: "VALIDATION_FAILED",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    413: "BODY_TOO_LARGE",
    415: "UNSUPPORTED_MEDIA_TYPE",
    429: "TOO_MANY_REQUESTS",
}


class Fault(msgspec.Struct, frozen=True):
    """What went wrong."""

    code: str
    message: str
    details: list[Problem] = []


class Answer(msgspec.Struct, frozen=True):
    """The body of an answer that is an error."""

    error: Fault


AnyRequest = Request[Any, Any, Any]


def invalid(_request: AnyRequest, error: InvalidUser) -> Response[Answer]:
    """Fields that cannot be taken, each with its reason."""
    return answer(400, CODES[400], str(error), error.problems)


def unfit(_request: AnyRequest, error: InvalidInput) -> Response[Answer]:
    """The same, where duly has found it."""
    return answer(400, CODES[400], str(error), [Problem(error.field, error.problem)])


def unreadable(_request: AnyRequest, _error: ValidationException) -> Response[Answer]:
    """A body, or something in the path, that is not what it should be."""
    problem = Problem("body", "give a JSON object")
    return answer(400, CODES[400], f"{problem.field}: {problem.reason}", [problem])


def unknown(_request: AnyRequest, error: UserNotFound) -> Response[Answer]:
    """There is no such user."""
    return answer(404, "USER_NOT_FOUND", str(error))


def changed(_request: AnyRequest, error: UserChanged) -> Response[Answer]:
    """Somebody else was first."""
    return answer(412, "USER_CHANGED", str(error))


def refused(_request: AnyRequest, error: HTTPException) -> Response[Answer]:
    """What the door or the port itself refuses."""
    code = CODES.get(error.status_code, "REFUSED")
    return answer(error.status_code, code, error.detail, headers=error.headers)


def busy(_request: AnyRequest, error: Conflict) -> Response[Answer]:
    """The same request is under way."""
    return answer(409, "CONFLICT", str(error))


def away(_request: AnyRequest, error: StoreUnavailable) -> Response[Answer]:
    """The store does not answer."""
    return answer(503, "UNAVAILABLE", str(error), headers={"retry-after": "1"})


def failed(request: AnyRequest, error: Exception) -> Response[Answer]:
    """The fault is ours; the log has the rest."""
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return answer(500, "INTERNAL", "something went wrong here; the log says what")


def answer(
    status: int,
    code: str,
    message: str,
    details: list[Problem] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response[Answer]:
    """An error as it is answered."""
    return Response(
        Answer(Fault(code, message, details or [])), status_code=status, headers=headers
    )


HANDLERS: Any = {
    InvalidUser: invalid,
    InvalidInput: unfit,
    ValidationException: unreadable,
    UserNotFound: unknown,
    UserChanged: changed,
    HTTPException: refused,
    Conflict: busy,
    StoreUnavailable: away,
    DulyError: failed,
    Exception: failed,
}
