"""OpenAPI operations, one for each method of a path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import msgspec

from duly.surfaces.http.openapi.schemas import Document, Schemas, not_null
from duly.surfaces.http.protocol.problems import LATER
from duly.surfaces.http.protocol.responses import JSON
from duly.surfaces.http.protocol.routing import OPEN, Route

ALWAYS = (400, 401, 403, 404, 422, 429, 500, 503)
WHEN_WRITING = (409, 412, 413, 415)
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A repeated key within a day returns the first response, and does nothing more.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "example": "order-17-shipped",
}
IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "description": "The `ETag` of the version that was read; 412 if it has changed since.",
    "schema": {"type": "string", "pattern": r'^(\*|"[0-9]{1,9}")$'},
    "example": '"3"',
}
IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "`*` to create it only; 412 if it exists already. Not with `If-Match`.",
    "schema": {"type": "string", "enum": ["*"]},
    "example": "*",
}
ETAG = {"ETag": {"description": "the version, for `If-Match`", "schema": {"type": "string"}}}
RETRY_AFTER = {
    "Retry-After": {
        "description": "the seconds to wait before trying again",
        "schema": {"type": "integer"},
    }
}


class Operation:
    """Describes a route, and the structs that it uses."""

    def __init__(self, route: Route) -> None:
        self.path = route.path
        self.method = route.method.lower()
        self.tag = self.path.removeprefix("/v1").strip("/").partition("/")[0] or "root"
        self._route = route

    def document(self, schemas: Schemas) -> Document:
        """The operation; its schemas are added to those of the document."""
        document: Document = {
            "operationId": self._id,
            "tags": [self.tag],
            **self._words(),
            "parameters": list(self._parameters(schemas)),
            "responses": self._responses(schemas),
        }
        if self._route.body is not None:
            document["requestBody"] = self._body(schemas)
        return document

    @property
    def _id(self) -> str:
        by_path = re.sub(r"[^a-z0-9]+", "_", self.path.lower()).strip("_")
        return self._route.operation_id or f"{self.method}_{by_path}"

    def _words(self) -> Document:
        """The route's docstring: the first paragraph as summary, the rest and the scope as text."""
        text = self._route.function.__doc__ or ""
        paragraphs = [" ".join(each.split()) for each in text.split("\n\n")]
        scope = self._route.scope
        needs = f"Needs a key with scope `{scope}`, if the server needs keys."
        rest = [*paragraphs[1:], "Needs no key." if scope == OPEN else needs]
        return {"summary": paragraphs[0], "description": "\n\n".join(rest)}

    def _body(self, schemas: Schemas) -> Document:
        schema = not_null(schemas.of(self._route.body))
        example = schemas.example(schema)
        content = {"schema": schema} | ({} if example is None else {"example": example})
        return {
            "required": not self._route.is_body_optional,
            "content": {JSON: content, **self._route.content},
        }

    def _parameters(self, schemas: Schemas) -> Iterator[Document]:
        route = self._route
        for name, kind in route.names.items():
            yield self._parameter(name, "path", kind, schemas)
        for name in route.headers:
            yield self._parameter(name, "header", str, schemas)
        if route.query is not None:
            yield from _queries(route.query, schemas)
        if "version" in route.takes:
            yield IF_MATCH
            if route.creates:
                yield IF_NONE_MATCH
        if self.method == "post":
            yield IDEMPOTENCY_KEY

    def _parameter(self, name: str, place: str, kind: Any, schemas: Schemas) -> Document:
        schema = schemas.described(schemas.of(kind), f"{self.tag}.{name}")
        return _parameter(name, place, place == "path", schema)

    def refusals(self, schemas: Schemas) -> Document:
        """The error responses, as components by name."""
        errors = self._route.errors
        content = {errors.media: {"schema": schemas.of(errors.kind)}}
        return {
            f"{errors.name}{status}": {
                "description": HTTPStatus(status).phrase,
                "content": content,
                **({"headers": RETRY_AFTER} if status in LATER else {}),
            }
            for status in self._refused_with
        }

    @property
    def _refused_with(self) -> tuple[int, ...]:
        usual = (*ALWAYS, *(WHEN_WRITING if self.method != "get" else ()))
        return tuple(status for status in usual if status not in self._route.errors.never)

    def _answers(self) -> Iterator[tuple[int, Any, str]]:
        route = self._route
        answer = None if route.answer is type(None) else route.answer
        yield route.status, answer, HTTPStatus(route.status).phrase
        for status, other in route.also.items():
            yield status, other.kind, other.description

    def _responses(self, schemas: Schemas) -> Document:
        found: Document = {}
        for status, kind, description in self._answers():
            answer: Document = {"description": description}
            found[str(status)] = answer
            if kind is not None:
                answer["content"] = self._content(schemas.of(kind))
            if self._route.is_versioned:
                answer["headers"] = ETAG
        name = self._route.errors.name
        for status in self._refused_with:
            found.setdefault(str(status), {"$ref": f"#/components/responses/{name}{status}"})
        return found

    def _content(self, schema: Document) -> Document:
        media = self._route.media
        if media.startswith("text/"):
            # A stream: the data of each event is such a document.
            text = {"type": "string", "contentMediaType": JSON, "contentSchema": schema}
            return {media: {"schema": text}}
        return {JSON: {"schema": schema}}


def _queries(kind: type[msgspec.Struct], schemas: Schemas) -> Iterator[Document]:
    for each in msgspec.structs.fields(kind):
        name = each.encode_name
        schema = schemas.parameter(kind, name, each.type)
        if not each.required and each.default is not None:
            schema["default"] = msgspec.to_builtins(each.default)
        yield _parameter(name, "query", each.required, schema)


def _parameter(name: str, place: str, required: bool, schema: Document) -> Document:
    """A parameter, with its description beside the schema, where readers look for it."""
    description, examples = schema.pop("description", ""), schema.pop("examples", None)
    found = {"name": name, "in": place, "required": required, "description": description}
    return found | {"schema": schema} | ({"example": examples[0]} if examples else {})
