"""Errors of `/user` as JSON: `{error: {code, message, details}}`."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException

from duly.errors import Conflict, InvalidInput, StoreUnavailable
from duly.surfaces.http.protocol.problems import EmptyBody, Errors, request_line
from duly.surfaces.http.protocol.responses import JSON, Reply, Scope, reply
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


NO_OBJECT = "body: give a JSON object"


class Fault(msgspec.Struct, frozen=True):
    """The description of an error."""

    code: str
    message: str
    details: list[Problem] = []


class Answer(msgspec.Struct, frozen=True):
    """The body of an error response."""

    error: Fault


def fault_reply(scope: Scope, error: Exception) -> Reply:
    """The answer to any error."""
    match error:
        case InvalidUser():
            return _reply(400, CODES[400], str(error), error.problems)
        case InvalidInput():
            return _reply(400, CODES[400], str(error), [Problem(error.field, error.problem)])
        case EmptyBody():
            return _reply(400, CODES[400], NO_OBJECT, [Problem("body", "give a JSON object")])
        case UserNotFound():
            return _reply(404, "USER_NOT_FOUND", str(error))
        case UserChanged():
            return _reply(412, "USER_CHANGED", str(error))
        case HTTPException():
            code = CODES.get(error.status_code, "REFUSED")
            return _reply(error.status_code, code, error.detail, headers=error.headers)
        case Conflict():
            return _reply(409, "CONFLICT", str(error))
        case StoreUnavailable():
            return _reply(503, "UNAVAILABLE", str(error), headers={"retry-after": "1"})
    logger.error("%s failed", request_line(scope), exc_info=error)
    return _reply(500, "INTERNAL", "internal error; see the server's log")


def _reply(
    status: int,
    code: str,
    message: str,
    details: list[Problem] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    return reply(status, Answer(Fault(code, message, details or [])), dict(headers or {}))


# Invalid input is answered with 400 here.
FAULTS = Errors(fault_reply, Answer, "UserAnswer", JSON, never=(422,))
