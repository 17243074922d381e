"""Every error of the port as problem+json."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from msgspec import UNSET, UnsetType

from duly.errors import (
    BadSetting,
    Busy,
    Conflict,
    DulyError,
    InvalidInput,
    NotFound,
    Outdated,
    StoreUnavailable,
    UnreadableRule,
)

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


class Problem(msgspec.Struct, frozen=True):
    """What went wrong, as RFC 9457 has it."""

    status: int
    title: str
    detail: str
    type: str = "about:blank"
    field: str | UnsetType = UNSET
    """Which part of the request cannot be taken."""


AnyRequest = Request[Any, Any, Any]


def refused(_request: AnyRequest, error: HTTPException) -> Response[Problem]:
    """The answer to a request that cannot be served."""
    return answer(error.status_code, error.detail, headers=error.headers)


def unfit(_request: AnyRequest, error: ValidationException) -> Response[Problem]:
    """The answer to a value in the path, the query or a header that cannot be taken."""
    found = error.extra[0] if isinstance(error.extra, list) and error.extra else {}
    field = found.get("key", "request")
    if field == "data":
        return answer(400, "the body is empty; give a JSON document", field="body")
    return answer(422, f"{field}: {found.get('message', error.detail)}", field=field)


def unable(request: AnyRequest, error: DulyError) -> Response[Problem]:
    """The answer to what duly itself refuses."""
    problem = problem_of(error)
    if problem.status == 500:
        return failed(request, error)
    status, headers = problem.status, later(problem)
    return Response(problem, status_code=status, headers=headers, media_type=MEDIA_TYPE)


def problem_of(error: DulyError) -> Problem:
    """What duly itself refuses."""
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
    field = error.field if isinstance(error, InvalidInput) else UNSET
    return Problem(status, HTTPStatus(status).phrase, str(error), field=field)


def later(problem: Problem) -> dict[str, str]:
    """The header that says when to ask again, if that may help."""
    return {"retry-after": str(RETRY_AFTER_SECONDS)} if problem.status in LATER else {}


def failed(request: AnyRequest, error: Exception) -> Response[Problem]:
    """The answer when the fault is ours; the log has the rest."""
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return answer(500, "something went wrong here; the log says what")


def answer(
    status: int,
    detail: str,
    *,
    field: str | UnsetType = UNSET,
    headers: Mapping[str, str] | None = None,
) -> Response[Problem]:
    """A problem as it is answered."""
    problem = Problem(status, HTTPStatus(status).phrase, detail, field=field)
    return Response(problem, status_code=status, headers=headers, media_type=MEDIA_TYPE)


def problem_answer(request: AnyRequest, error: Exception) -> Response[Problem]:
    """The answer to any error."""
    handler = next(each for kind, each in HANDLERS.items() if isinstance(error, kind))
    found: Response[Problem] = handler(request, error)
    return found


HANDLERS: Any = {
    ValidationException: unfit,
    HTTPException: refused,
    DulyError: unable,
    Exception: failed,
}
"""By kind, the nearer before the wider."""
