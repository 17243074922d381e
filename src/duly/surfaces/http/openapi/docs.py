"""The documentation pages and the OpenAPI document; they need no key and no network.

They contain nothing from the store.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import msgspec

from duly.surfaces.http.dashboard import index
from duly.surfaces.http.openapi.document import SUMMARY
from duly.surfaces.http.openapi.schemas import Document
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.responses import JSON, Answer
from duly.surfaces.http.protocol.routing import OPEN, Route, get
from duly.version import __version__

LINKS = {
    "docs": "/docs",
    "openapi": "/openapi.json",
    "health": "/health",
    "ready": "/ready",
    "metrics": "/metrics",
}
WELCOME = {"name": "duly", "version": __version__, "summary": SUMMARY}
HTML = "text/html; charset=utf-8"
JSON_KINDS = ("application/json", "application/*")
KINDS = (*JSON_KINDS, "text/html", "text/*", "*/*")


def doc_routes(describe: Callable[[], Document], welcome: Route | None) -> list[Route]:
    """The pages and the document, and `/` if the app has no route for it."""
    described = cache(lambda: msgspec.json.encode(describe()))

    @get("/openapi.json", scope=OPEN)
    async def document() -> bytes:
        return described()

    at_docs = replace(document, path="/docs/openapi.json")
    return [*([welcome] if welcome else []), page, document, at_docs]


def welcome_route(own: Iterable[Route]) -> Route:
    """The dashboard; as JSON, links to what the server has, with the lists of the app's routes."""
    lists = {each.path.strip("/"): each.path for each in own if _is_list(each)}

    @get("/", scope=OPEN, media=HTML)
    async def welcome(request: Request) -> Answer[Any]:
        if _prefers_json(request.header(b"accept") or "*/*"):
            document = WELCOME | {"links": lists | LINKS}
            return Answer(document, headers={"vary": "Accept", "content-type": JSON})
        return index(request)

    return welcome


def _is_list(route: Route) -> bool:
    return route.method == "GET" and not route.names


@get("/docs", scope=OPEN, media=HTML)
async def page() -> Answer[bytes]:
    """The API's documentation as a page that loads only the OpenAPI document."""
    return _page("docs.html")


def _prefers_json(accept: str) -> bool:
    accepted = sorted((_preference(each) for each in accept.split(",")), reverse=True)
    best = next((kind for _, _, kind in accepted if kind in KINDS), "")
    return best in JSON_KINDS


def _preference(part: str) -> tuple[float, int, str]:
    kind, _, rest = part.partition(";")
    quality = re.search(r"q\s*=\s*([0-9.]+)", rest)
    try:
        wanted = float(quality[1]) if quality else 1.0
    except ValueError:
        wanted = 1.0
    kind = kind.strip().lower()
    return wanted, 2 - kind.count("*"), kind


def _page(name: str, **headers: str) -> Answer[bytes]:
    content, policy = _read(name)
    return Answer(content, headers={"content-security-policy": policy, **headers})


@cache
def _read(name: str) -> tuple[bytes, str]:
    """A page, with a content security policy for its own style, script and requests only."""
    text = (files(__package__) / name).read_text().replace("{version}", __version__)
    policy = (
        f"default-src 'none'; style-src {_hash('style', text)}; script-src {_hash('script', text)};"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text.encode(), policy


def _hash(tag: str, text: str) -> str:
    (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return f"'sha256-{b64encode(sha256(inside.encode()).digest()).decode()}'"
