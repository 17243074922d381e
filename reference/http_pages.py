"""The page about the HTTP API, from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps
from typing import Any

from duly.surfaces.http.application import API
from duly.surfaces.http.openapi.document import describe
from reference.tables import row

Document = dict[str, Any]
INTRODUCTION = """# HTTP API

A server has such a page at `/docs`, and the OpenAPI document that it is made from at
`/openapi.json`. [The HTTP API](../http.md) explains keys, pages, errors and idempotent requests.
Errors have the content type `application/problem+json`.

"""
FIELDS = "| field | type | meaning |\n|---|---|---|\n"


def page() -> str:
    """All requests by resource, then all documents."""
    document = describe(API, needs_keys=True)
    return INTRODUCTION + "\n".join([*_resources(document), *_documents(document)])


def _resources(document: Document) -> Iterator[str]:
    for tag in document["tags"]:
        yield f"## {tag['name'].capitalize()}\n\n{tag['description']}\n"
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if operation["tags"] == [tag["name"]]:
                    yield _operation(f"{method.upper()} {path}", operation)


def _operation(title: str, operation: Document) -> str:
    parts = [
        f"### `{title}`\n",
        f"{operation['summary']}\n",
        operation.get("description", "") + "\n",
    ]
    if parameters := operation.get("parameters"):
        rows = (row(f"`{each['name']}`", each["in"], _parameter(each)) for each in parameters)
        parts.append(f"| parameter | in | meaning |\n|---|---|---|\n{''.join(rows)}")
    if body := operation.get("requestBody"):
        parts.append(_body(body))
    parts.append(_answers(operation["responses"]))
    return "\n".join(parts)


def _parameter(parameter: Document) -> str:
    kind = kind_of(parameter["schema"])
    required = ", required" if parameter.get("required") else ""
    return f"{kind}{required}: {parameter.get('description', '')}"


def _body(body: Document) -> str:
    shown = []
    for media, content in body["content"].items():
        shown.append(f"Body (`{media}`): {kind_of(content.get('schema', {}))}\n")
        if example := content.get("example"):
            shown.append(f"```json\n{dumps(example, indent=2)}\n```\n")
    return "\n".join(shown)


def _answers(responses: Document) -> str:
    """The successful responses with their documents, and the codes of the others."""
    good = {code: each for code, each in responses.items() if "$ref" not in each}
    lines = [
        f"- {code}: {each['description']} {_content(each)}".rstrip() for code, each in good.items()
    ]
    refused = sorted(code for code in responses if code not in good)
    if refused:
        lines.append(f"- errors: {', '.join(refused)}")
    return "\n".join(lines) + "\n"


def _content(response: Document) -> str:
    kinds = {kind_of(each.get("schema", {})) for each in response.get("content", {}).values()}
    return ", ".join(sorted(kinds - {""}))


def _documents(document: Document) -> Iterator[str]:
    yield "## Documents\n"
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f"### {name}\n\n{_schema(schema)}"


def _schema(schema: Document) -> str:
    described = f"{schema['description']}\n\n" if "description" in schema else ""
    if "properties" not in schema:
        return f"{described}{kind_of(schema)}\n"
    rows = (
        row(f"`{name}`", kind_of(each), each.get("description", ""))
        for name, each in schema["properties"].items()
    )
    return f"{described}{FIELDS}{''.join(rows)}"


def kind_of(schema: Document) -> str:
    """The type of a value in words, with links to the documents it consists of."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if several := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(map(kind_of, several))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {kind_of(schema.get('items', {})) or 'anything'}"
    kind = schema.get("format") or schema.get("type") or ""
    return kind if isinstance(kind, str) else " or ".join(kind)
