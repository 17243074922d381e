"""Versions as ETags: whoever changes a thing may say which version of it was read."""

from __future__ import annotations

from typing import Any

from litestar.connection import ASGIConnection
from litestar.di import NamedDependency, Provide
from litestar.params import SkipValidation

from duly.domain.errors import InvalidInput

Version = NamedDependency[SkipValidation[int | None]]
"""`version: Version` in a route with `dependencies=IF_MATCH`: what If-Match says, if anything."""


def if_match(request: ASGIConnection[Any, Any, Any, Any]) -> int | None:
    """The version that the caller has read; None when any will do."""
    given = request.headers.get("if-match")
    if given is None or given.strip() == "*":
        return None
    version = given.strip().removeprefix("W/").strip('"')
    if not version.isascii() or not version.isdecimal() or len(version) > 9:
        raise InvalidInput("If-Match", f'{given!r} is no version; give the ETag, as in "3"')
    return int(version)


IF_MATCH = {"version": Provide(if_match, sync_to_thread=False)}


def etag(version: int) -> dict[str, str]:
    """The header that names a version."""
    return {"etag": f'"{version}"'}
