"""Versions as ETags: a change may name the version it is based on."""

from __future__ import annotations

from duly.errors import NOT_YET, InvalidInput
from duly.surfaces.http.protocol.request import Request


def if_match(request: Request) -> int | None:
    """The version that the caller has read, 0 if it must be new, None if any is accepted."""
    given, other_than = (request.header(name) for name in (b"if-match", b"if-none-match"))
    if other_than is not None:
        if other_than.strip() != "*" or given is not None:
            raise InvalidInput("If-None-Match", "give * to create it only, without If-Match")
        return NOT_YET
    if given is None or given.strip() == "*":
        return None
    version = given.strip().removeprefix("W/").strip('"')
    if not version.isascii() or not version.isdecimal() or len(version) > 9:
        raise InvalidInput("If-Match", f'{given!r} is not a version; give the ETag, as in "3"')
    return int(version)


def etag(version: int) -> dict[str, str]:
    """The header with a version."""
    return {"etag": f'"{version}"'}
