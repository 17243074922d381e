"""Every error of the port as problem+json."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

logger = logging.getLogger("duly.http")
MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True):
    """What went wrong, as RFC 9457 has it."""

    status: int
    title: str
    detail: str
    type: str = "about:blank"


def refused(_request: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    """The answer to a request that cannot be served."""
    return _answer(error.status_code, error.detail, error.headers)


def failed(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    """The answer when the fault is ours; the log has the rest."""
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _answer(500, "something went wrong here; the log says what", None)


def _answer(status: int, detail: str, headers: Mapping[str, str] | None) -> Response[Problem]:
    problem = Problem(status, HTTPStatus(status).phrase, detail)
    return Response(problem, status_code=status, headers=headers, media_type=MEDIA_TYPE)


HANDLERS: Any = {HTTPException: refused, Exception: failed}
