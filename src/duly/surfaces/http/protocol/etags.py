"""Versions as ETags: whoever changes a thing may say which version of it was read."""

from __future__ import annotations

from typing import Any

from litestar.connection import ASGIConnection
from litestar.datastructures import ResponseHeader
from litestar.di import NamedDependency, Provide
from litestar.params import SkipValidation

from duly.errors import NOT_YET, InvalidInput

Version = NamedDependency[SkipValidation[int | None]]
"""`version: Version` in a route with `dependencies=IF_MATCH`: what the caller says of it."""


def if_match(request: ASGIConnection[Any, Any, Any, Any]) -> int | None:
    """The version that the caller has read, or 0 if it is to be new; None when any will do."""
    given, other_than = (request.headers.get(name) for name in ("if-match", "if-none-match"))
    if other_than is not None:
        if other_than.strip() != "*" or given is not None:
            raise InvalidInput("If-None-Match", "give * for what is to be new, and no If-Match")
        return NOT_YET
    if given is None or given.strip() == "*":
        return None
    version = given.strip().removeprefix("W/").strip('"')
    if not version.isascii() or not version.isdecimal() or len(version) > 9:
        raise InvalidInput("If-Match", f'{given!r} is no version; give the ETag, as in "3"')
    return int(version)


IF_MATCH = {"version": Provide(if_match, sync_to_thread=False)}
ETAG = [ResponseHeader("ETag", documentation_only=True, description="the version, for `If-Match`")]
"""`response_headers=ETAG` in a route that answers with `etag(version)`."""


def etag(version: int) -> dict[str, str]:
    """The header that names a version."""
    return {"etag": f'"{version}"'}
