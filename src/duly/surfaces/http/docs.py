"""`/docs`: the API described, for machines and, without any network, for people."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from litestar import Litestar, MediaType, Request, Response, get

from duly.surfaces.http.openapi import describe


@get("/docs", media_type=MediaType.HTML)
async def page() -> Response[bytes]:
    """The description as a page of its own; it fetches nothing but the document beside it."""
    return Response(_page(), headers={"content-security-policy": POLICY})


@get("/docs/openapi.json")
async def document(request: Request[Any, Any, Any]) -> Response[bytes]:
    """The description as OpenAPI 3.1."""
    return Response(_document(request.app), media_type="application/json")


POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
)


@cache
def _page() -> bytes:
    return (files(__package__) / "docs.html").read_bytes()


@cache
def _document(site: Litestar) -> bytes:
    return msgspec.json.encode(describe(site))


ROUTES = [page, document]
