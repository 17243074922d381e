"""Versions as ETags: a change may name the version that the caller has read."""

from __future__ import annotations

from duly.errors import NOT_YET, InvalidInput
from duly.surfaces.http.protocol.request import Request


def if_match(request: Request) -> int | None:
    """The version that the caller has read, or 0 if it is to be new; None when any will do."""
    given, other_than = (request.header(name) for name in (b"if-match", b"if-none-match"))
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


def etag(version: int) -> dict[str, str]:
    """The header that names a version."""
    return {"etag": f'"{version}"'}
