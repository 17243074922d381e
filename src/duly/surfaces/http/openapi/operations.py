"""One method of one path as OpenAPI describes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
from litestar import Response
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.params import ParameterKwarg
from litestar.routes import HTTPRoute
from litestar.typing import FieldDefinition
from msgspec import Meta

from duly.domain.access.keys import Scope
from duly.surfaces.http.openapi.schemas import Document, Schemas, not_null
from duly.surfaces.http.protocol.decoding import Asked
from duly.surfaces.http.protocol.etags import if_match
from duly.surfaces.http.protocol.problems import LATER, MEDIA_TYPE, Problem, refused

JSON = "application/json"
ALWAYS = (400, 401, 403, 404, 422, 429, 500, 503)
WHEN_WRITING = (409, 412, 413, 415)
RESERVED = frozenset({"data", "body", "request", "scope", "state", "headers", "cookies", "query"})
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key again within a day gives the first answer, and does nothing more.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "example": "order-17-shipped",
}
IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "description": "The `ETag` of the version that was read; 412 if it was changed since.",
    "schema": {"type": "string", "pattern": r'^(\*|"[0-9]{1,9}")$'},
    "example": '"3"',
}
IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "`*` to create it only; 412 if there is one of that name. Not with `If-Match`.",
    "schema": {"type": "string", "enum": ["*"]},
    "example": "*",
}
RETRY_AFTER = {
    "Retry-After": {
        "description": "in how many seconds to ask again",
        "schema": {"type": "integer"},
    }
}


class Operation:
    """What is known of it: from its route, its handler, and the structs that these name."""

    def __init__(self, route: HTTPRoute, handler: HTTPRouteHandler, method: str) -> None:
        self.path = re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path_format)
        self.method = method
        self.tag = self.path.removeprefix("/v1").strip("/").partition("/")[0] or "root"
        self._in_path = set(route.path_parameters)
        self._handler = handler
        taken = handler.parsed_fn_signature.parameters
        dependencies = handler.resolve_dependencies()
        self._provided = [
            provide.dependency for name, provide in dependencies.items() if name in taken
        ]
        self._parameters = {
            name: field
            for name, field in taken.items()
            if name not in RESERVED and name not in dependencies
        }

    def document(self, schemas: Schemas) -> Document:
        """The operation, with its schemas among those of the document."""
        document: Document = {
            "operationId": self._id,
            "tags": [self.tag],
            **self._words(),
            "parameters": list(self._parameter_documents(schemas)),
            "responses": self._responses(schemas),
        }
        if self._body is not None:
            document["requestBody"] = self._body_document(schemas)
        return document

    @property
    def _id(self) -> str:
        given = self._handler.operation_id
        if isinstance(given, str):
            return given
        return f"{self.method}_{re.sub(r'[^a-z0-9]+', '_', self.path.lower()).strip('_')}"

    def _words(self) -> Document:
        """Its docstring: the first paragraph in short, the rest and the scope in full."""
        paragraphs = [
            " ".join(each.split()) for each in (self._handler.fn.__doc__ or "").split("\n\n")
        ]
        by_method = Scope.READ if self.method == "get" else Scope.OPERATE
        scope = self._handler.opt.get("scope", by_method)
        told = [*paragraphs[1:], f"Needs a key with scope `{scope}`, where keys are needed."]
        return {"summary": paragraphs[0], "description": "\n\n".join(told)}

    @property
    def _body(self) -> Any:
        given, field = self._handler.opt.get("body"), self._handler.parsed_data_field
        if given is not None:
            return given()
        return None if field is None else field.annotation

    def _body_document(self, schemas: Schemas) -> Document:
        field = self._handler.parsed_data_field
        schema = not_null(schemas.of(self._body))
        example = schemas.example(schema)
        content = {"schema": schema} | ({} if example is None else {"example": example})
        return {
            "required": field is None or not field.has_default,
            "content": {JSON: content} | self._handler.opt.get("content", {}),
        }

    def _parameter_documents(self, schemas: Schemas) -> Iterator[Document]:
        for name, field in self._parameters.items():
            yield self._parameter(name, field, schemas)
        for provided in self._provided:
            if isinstance(provided, Asked):
                yield from _queries(provided.kind, schemas)
        if if_match in self._provided:
            yield IF_MATCH
            if self._handler.opt.get("creates"):
                yield IF_NONE_MATCH
        if self.method == "post":
            yield IDEMPOTENCY_KEY

    def _parameter(self, name: str, field: FieldDefinition, schemas: Schemas) -> Document:
        given = field.kwarg_definition
        kind = given.param_type.value if isinstance(given, ParameterKwarg) else "query"
        place = "path" if name in self._in_path else kind
        shown = (given.name if isinstance(given, ParameterKwarg) else None) or name
        required = place == "path" or (field.is_required and not field.is_optional)
        schema = schemas.described(not_null(schemas.of(_limited(field))), f"{self.tag}.{shown}")
        return _parameter(shown, place, required, schema)

    def refusals(self, schemas: Schemas) -> Document:
        """The answers that say no, as components by name."""
        kind, prefix, media = self._problem
        content = {media: {"schema": schemas.of(kind)}}
        return {
            f"{prefix}{status}": {
                "description": HTTPStatus(status).phrase,
                "content": content,
                **({"headers": RETRY_AFTER} if status in LATER else {}),
            }
            for status in self._refused_with
        }

    @property
    def _refused_with(self) -> tuple[int, ...]:
        usual = (*ALWAYS, *(WHEN_WRITING if self.method != "get" else ()))
        never = self._handler.opt.get("never", ())
        return tuple(status for status in usual if status not in never)

    @property
    def _problem(self) -> tuple[Any, str, str]:
        """What an error looks like: its kind, how its answers are called, its type."""
        tell = self._handler.resolve_exception_handlers().get(HTTPException, refused)
        (kind,) = get_args(get_type_hints(tell)["return"]) or (Problem,)
        if kind is Problem:
            return Problem, "Problem", MEDIA_TYPE
        return kind, self.tag.title() + kind.__name__, JSON

    def _answers(self) -> Iterator[tuple[int, Any, str]]:
        kind = self._handler.parsed_fn_signature.return_type
        if kind.is_subclass_of(Response):
            kind = kind.inner_types[0]
        status = self._handler.status_code
        told = kind.annotation if not kind.is_subclass_of(type(None)) else None
        yield status, told, HTTPStatus(status).phrase
        for other, spec in (self._handler.responses or {}).items():
            yield other, spec.data_container, spec.description

    def _responses(self, schemas: Schemas) -> Document:
        found: Document = {}
        headers = {
            each.name: {"description": each.description, "schema": {"type": "string"}}
            for each in self._handler.resolve_response_headers()
            if each.name is not None
        }
        for status, kind, description in self._answers():
            answer: Document = {"description": description}
            found[str(status)] = answer
            if kind is not None:
                answer["content"] = self._content(schemas.of(kind))
            if headers:
                answer["headers"] = headers
        prefix = self._problem[1]
        for status in self._refused_with:
            found.setdefault(str(status), {"$ref": f"#/components/responses/{prefix}{status}"})
        return found

    def _content(self, schema: Document) -> Document:
        media = self._handler.media_type
        if isinstance(media, str) and media.startswith("text/"):
            # A stream: each event's data is such a document.
            text = {"type": "string", "contentMediaType": JSON, "contentSchema": schema}
            return {str(media): {"schema": text}}
        return {JSON: {"schema": schema}}


def _queries(kind: type[msgspec.Struct], schemas: Schemas) -> Iterator[Document]:
    for each in msgspec.structs.fields(kind):
        name = each.encode_name
        schema = schemas.asked(kind, name, each.type)
        if not each.required and each.default is not None:
            schema["default"] = msgspec.to_builtins(each.default)
        yield _parameter(name, "query", each.required, schema)


def _parameter(name: str, place: str, required: bool, schema: Document) -> Document:
    """A parameter; what is said of it is where readers look for it, beside the schema."""
    description, examples = schema.pop("description", ""), schema.pop("examples", None)
    found = {"name": name, "in": place, "required": required, "description": description}
    return found | {"schema": schema} | ({"example": examples[0]} if examples else {})


LIMITS = ("ge", "gt", "le", "lt", "min_length", "max_length", "pattern", "description")


def _limited(field: FieldDefinition) -> Any:
    """A parameter's kind with the limits that its route gives it."""
    given = {name: getattr(field.kwarg_definition, name, None) for name in LIMITS}
    limits = {name: value for name, value in given.items() if value is not None}
    return Annotated[field.annotation, Meta(**limits)] if limits else field.annotation
