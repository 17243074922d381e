"""The API's own description, OpenAPI 3.1: read off the routes and the structs that they decode."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from litestar import Litestar, Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import ParameterKwarg
from litestar.routes import HTTPRoute
from litestar.typing import FieldDefinition
from msgspec import Meta

from duly.surfaces.http.bodies import Asked
from duly.surfaces.http.problems import MEDIA_TYPE, Problem
from duly.version import __version__

JSON = "application/json"
SCHEMA = "#/components/schemas/{name}"
ALWAYS = (400, 401, 403, 404, 422, 429, 500, 503)
WHEN_WRITING = (409, 412, 413, 415)
RESERVED = frozenset({"data", "body", "request", "scope", "state", "headers", "cookies", "query"})
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key again within a day gives the first answer, and does nothing more.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
Document = dict[str, Any]


def describe(site: Litestar) -> Document:
    """The whole document."""
    operations = list(_operations(site))
    kinds = [kind for each in operations for kind in each.kinds()]
    schemas, components = msgspec.json.schema_components([Problem, *kinds], ref_template=SCHEMA)
    schema_of = dict(zip(map(repr, [Problem, *kinds]), schemas, strict=True))
    paths: Document = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method] = each.document(schema_of)
    problem = {MEDIA_TYPE: {"schema": schema_of[repr(Problem)]}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "duly", "version": __version__, "summary": SUMMARY},
        "paths": dict(sorted(paths.items())),
        "security": [{"key": []}],
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": KEY}},
            "schemas": components,
            "responses": {
                f"Problem{status}": {"description": HTTPStatus(status).phrase, "content": problem}
                for status in sorted((*ALWAYS, *WHEN_WRITING))
            },
        },
    }


KEY = "a key, as `duly keys create` prints it; none is needed on a loopback port that is open"
SUMMARY = "Everything that is due is delivered, once, however long we were away."


def _operations(site: Litestar) -> Iterator[_Operation]:
    for route in site.routes:
        if isinstance(route, HTTPRoute) and route.path.startswith("/v1"):
            for handler in route.route_handlers:
                for method in sorted(handler.http_methods - {"OPTIONS", "HEAD"}):
                    yield _Operation(route, handler, method.lower())


class _Operation:
    """One method of one path."""

    def __init__(self, route: HTTPRoute, handler: HTTPRouteHandler, method: str) -> None:
        self.path = re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path_format)
        self.method = method
        self._in_path = set(route.path_parameters)
        self._handler = handler
        dependencies = handler.resolve_dependencies()
        self._query = next(
            (
                provide.dependency.kind
                for name, provide in dependencies.items()
                if isinstance(provide.dependency, Asked)
                and name in handler.parsed_fn_signature.parameters
            ),
            None,
        )
        self._parameters = {
            name: field
            for name, field in handler.parsed_fn_signature.parameters.items()
            if name not in RESERVED and name not in dependencies
        }

    @property
    def writes(self) -> bool:
        return self.method != "get"

    def kinds(self) -> Iterable[Any]:
        """Every kind of value in it that needs a schema."""
        yield from (_kind(field) for field in self._parameters.values())
        yield from (each.type for each in self._query_fields())
        yield from self._answers().values()
        if self._body is not None:
            yield self._body

    @property
    def _body(self) -> Any:
        field, given = self._handler.parsed_data_field, self._handler.opt.get("body")
        if field is not None:
            return field.annotation
        return None if given is None else given()

    @property
    def _needs_body(self) -> bool:
        field = self._handler.parsed_data_field
        return field is None or not field.has_default

    def _answers(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        kind = self._handler.parsed_fn_signature.return_type
        if kind.is_subclass_of(Response):
            kind = kind.inner_types[0]
        if not kind.is_subclass_of(type(None)):
            found[self._handler.status_code] = kind.annotation
        for status, spec in (self._handler.responses or {}).items():
            found[status] = spec.data_container
        return found

    def _query_fields(self) -> tuple[msgspec.structs.FieldInfo, ...]:
        return () if self._query is None else msgspec.structs.fields(self._query)

    def document(self, schema_of: Document) -> Document:
        """The operation as OpenAPI has it."""
        text = (self._handler.fn.__doc__ or "").strip()
        summary, _, rest = text.partition("\n\n")
        document: Document = {
            "operationId": f"{self.method}_{re.sub(r'[^a-z]+', '_', self.path.lower()).strip('_')}",
            "tags": [self.path.split("/")[2]],
            "summary": " ".join(summary.split()),
            "parameters": self._parameter_documents(schema_of),
            "responses": self._responses(schema_of),
        }
        if rest:
            document["description"] = " ".join(rest.split())
        if self._body is not None:
            media = self._handler.opt.get("media", (JSON,))
            content = {each: {"schema": schema_of[repr(self._body)]} for each in media}
            document["requestBody"] = {"required": self._needs_body, "content": content}
        return document

    def _parameter_documents(self, schema_of: Document) -> list[Document]:
        found = [
            self._parameter(name, field, schema_of) for name, field in self._parameters.items()
        ]
        found += [
            {
                "name": each.encode_name,
                "in": "query",
                "required": each.required,
                "schema": schema_of[repr(each.type)],
            }
            for each in self._query_fields()
        ]
        return found + ([IDEMPOTENCY_KEY] if self.method == "post" else [])

    def _parameter(self, name: str, field: FieldDefinition, schema_of: Document) -> Document:
        given = field.kwarg_definition
        assert isinstance(given, ParameterKwarg), f"{name} is no FromPath, FromQuery or FromHeader"
        place = "path" if name in self._in_path else given.param_type.value
        return {
            "name": given.name or name,
            "in": place,
            "required": place == "path" or (field.is_required and not field.is_optional),
            "schema": schema_of[repr(_kind(field))],
        }

    def _responses(self, schema_of: Document) -> Document:
        found: Document = {
            str(status): {
                "description": HTTPStatus(status).phrase,
                "content": {JSON: {"schema": schema_of[repr(kind)]}},
            }
            for status, kind in self._answers().items()
        }
        if not found:
            status = self._handler.status_code
            found[str(status)] = {"description": HTTPStatus(status).phrase}
        for status in (*ALWAYS, *(WHEN_WRITING if self.writes else ())):
            found.setdefault(str(status), {"$ref": f"#/components/responses/Problem{status}"})
        return found


LIMITS = ("ge", "gt", "le", "lt", "min_length", "max_length", "pattern", "description")


def _kind(field: FieldDefinition) -> Any:
    """A parameter's kind with the limits that its route gives it."""
    given = {name: getattr(field.kwarg_definition, name, None) for name in LIMITS}
    limits = {name: value for name, value in given.items() if value is not None}
    return Annotated[field.annotation, Meta(**limits)] if limits else field.annotation
