"""The OpenAPI 3.1 document, made from the routes and their structs."""

from __future__ import annotations

from collections.abc import Iterable

from duly.surfaces.http.openapi.glossary import GLOSSARY, TAGS
from duly.surfaces.http.openapi.operations import Operation
from duly.surfaces.http.openapi.schemas import Document, Schemas
from duly.surfaces.http.protocol.routing import Route
from duly.version import __version__

KEY = "A key, as `duly keys create` prints it."
SUMMARY = "Everything that is due is delivered, once, however long duly was away."
DESCRIPTION = (
    "A durable scheduler and delivery engine. A schedule makes deliveries; a delivery goes to a "
    "target (a Python handler, a URL or an endpoint) in one or more attempts, until one completes "
    "it. Errors are `application/problem+json` (RFC 9457). Lists are read page by page: give "
    "`next` of a page as `cursor` to get the following one."
)
SERVERS: list[Document] = [
    {"url": "/", "description": "the server that this document comes from"},
    {
        "url": "http://{host}:{port}",
        "description": "a server by its address",
        "variables": {"host": {"default": "127.0.0.1"}, "port": {"default": "8787"}},
    },
]


def describe(routes: Iterable[Route], *, needs_keys: bool, server: str = "/") -> Document:
    """The document of /v1 and the app's own routes; `server` is the base URL of the paths."""
    schemas = Schemas(GLOSSARY)
    paths: Document = {}
    refusals: Document = {}
    for each in map(Operation, routes):
        paths.setdefault(each.path, {})[each.method] = each.document(schemas)
        refusals |= each.refusals(schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "duly",
            "version": __version__,
            "summary": SUMMARY,
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [SERVERS[0] | {"url": server}, *SERVERS[1:]],
        "security": [{"key": []}] if needs_keys else [{"key": []}, {}],
        "tags": _tags(paths),
        "paths": dict(sorted(paths.items())),
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": KEY}},
            "schemas": schemas.components,
            "responses": dict(sorted(refusals.items())),
        },
    }


def _tags(paths: Document) -> list[Document]:
    used = {each["tags"][0] for methods in paths.values() for each in methods.values()}
    return [{"name": name, "description": TAGS.get(name, name)} for name in sorted(used)]
