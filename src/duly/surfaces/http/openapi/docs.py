"""Pages for people, and the API described for machines; readable without a key and a network.

They say what every server of this version says, and nothing of what is in the store.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import msgspec
from litestar import Litestar, MediaType, Request, Response, get

from duly.surfaces.http.access.auth import OPEN
from duly.surfaces.http.openapi.document import SUMMARY, describe
from duly.version import __version__

LINKS = {
    "docs": "/docs",
    "openapi": "/openapi.json",
    "health": "/health",
    "ready": "/ready",
    "metrics": "/metrics",
}
WELCOME = {"name": "duly", "version": __version__, "summary": SUMMARY, "links": LINKS}
AnyRequest = Request[Any, Any, Any]


@get("/", opt={"scope": OPEN}, media_type=MediaType.HTML)
async def welcome(request: AnyRequest) -> Response[Any]:
    """What this is, and how to begin; as JSON for those who take nothing else."""
    vary = {"vary": "Accept"}
    if request.accept.best_match(["text/html", "application/json"]) == "application/json":
        return Response(WELCOME, media_type=MediaType.JSON, headers=vary)
    return _page("welcome.html", **vary)


@get("/docs", opt={"scope": OPEN}, media_type=MediaType.HTML)
async def page() -> Response[bytes]:
    """The description as a page of its own; it fetches nothing but the document beside it."""
    return _page("docs.html")


@get(["/openapi.json", "/docs/openapi.json"], opt={"scope": OPEN})
async def document(request: AnyRequest) -> Response[bytes]:
    """The description as OpenAPI 3.1."""
    return Response(_document(request.app), media_type="application/json")


def _page(name: str, **headers: str) -> Response[bytes]:
    content, policy = _read(name)
    return Response(content, headers={"content-security-policy": policy, **headers})


@cache
def _read(name: str) -> tuple[bytes, str]:
    """A page, and the policy that lets its own style and script run, and fetch from here only."""
    text = (files(__package__) / name).read_text().replace("{version}", __version__)
    policy = (
        f"default-src 'none'; style-src {_hash('style', text)}; script-src {_hash('script', text)};"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text.encode(), policy


def _hash(tag: str, text: str) -> str:
    (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return f"'sha256-{b64encode(sha256(inside.encode()).digest()).decode()}'"


@cache
def _document(site: Litestar) -> bytes:
    return msgspec.json.encode(describe(site))


ROUTES = [page, document]
