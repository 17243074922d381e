"""Routes: their paths, scopes, parameters and responses.

A route is an async function below `@get`, `@post`, `@put`, `@patch` or `@delete`. Its parameters
are given by name:

- `app`: the App in the caller's namespace, acting as the caller
- `request`: the Request itself
- `body`: the JSON body, decoded as the annotated type; with a default it may be left out
- `query`: the query, decoded as the annotated struct
- `version`: the version in `If-Match` or `If-None-Match`
- all others: the names in the path

It returns its content, an Answer with a status and headers, or any ASGI application.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from duly.records.key import Scope
from duly.surfaces.http.protocol.problems import PROBLEMS, Errors
from duly.surfaces.http.protocol.responses import JSON, Answer

OPEN: Literal["open"] = "open"
"""The scope of a route that needs no key."""
READING = ("GET", "HEAD", "OPTIONS")
STATUS = {"POST": 201, "DELETE": 204}
GIVEN = frozenset({"app", "request", "body", "query", "version"})
"""Parameters that are not names in the path."""


class Other(NamedTuple):
    """A response that a route may return instead of the usual one."""

    kind: Any
    description: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Route:
    """One method of one path."""

    method: str
    path: str
    function: Callable[..., Awaitable[Any]]
    operation_id: str | None = None
    scope: Scope | Literal["open"]
    unless: str | None = None
    """A query parameter with which an open route needs scope read."""
    here: bool = False
    """Whether it is about this server, and so for keys of the server's own namespace only."""
    is_strict: bool = False
    """Whether it refuses requests while the server stops, and unknown query parameters."""
    takes: frozenset[str]
    """Which of the parameters in `GIVEN` it has."""
    names: Mapping[str, Any]
    """The names in the path, in their order, and their types."""
    body_kind: Any = None
    is_body_optional: bool = False
    body: Any = None
    """The type that describes the body, if the route decodes it otherwise."""
    query: Any = None
    headers: tuple[str, ...] = ()
    """Headers that it reads besides the usual ones."""
    content: Mapping[str, Any] = field(default_factory=dict)
    """Other media types of its body, and their descriptions."""
    body_limit: int | None = None
    """Bytes that its body may have; None for the usual limit."""
    share: int | None = None
    """The share of the queue's places that it takes, 1 for a single place."""
    answer: Any = None
    status: int
    media: str = JSON
    also: Mapping[int, Other] = field(default_factory=dict)
    is_versioned: bool = False
    """Whether it answers with an ETag."""
    creates: bool = False
    """Whether it may create what it changes."""
    repeatable: bool = False
    """Whether repeating it with the same seed creates nothing twice."""
    secret: bool = False
    """Whether its response must not be stored."""
    errors: Errors = PROBLEMS


Decorator = Callable[[Callable[..., Awaitable[Any]]], Route]


def _route(method: str, path: str, **options: Any) -> Decorator:
    by_method = Scope.READ if method in READING else Scope.OPERATE
    given = {"scope": by_method, "status": STATUS.get(method, 200)} | options
    return lambda function: Route(
        method=method, path=path, function=function, **_signature(function, path) | given
    )


get = partial(_route, "GET")
post = partial(_route, "POST")
put = partial(_route, "PUT")
patch = partial(_route, "PATCH")
delete = partial(_route, "DELETE")


def below(prefix: str, routes: Iterable[Route], **options: Any) -> list[Route]:
    """The routes below a path prefix, with these options."""
    return [replace(each, path=prefix + each.path, **options) for each in routes]


def _signature(function: Callable[..., Awaitable[Any]], path: str) -> dict[str, Any]:
    kinds = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters
    answer = kinds.get("return")
    has_more = get_origin(answer) is Answer
    names = re.findall(r"\{(\w+)\}", path)
    assert parameters.keys() - GIVEN == set(names), (path, *parameters)
    body = parameters.get("body")
    return {
        "takes": GIVEN & parameters.keys(),
        "names": {name: kinds[name] for name in names},
        "body_kind": kinds.get("body"),
        "body": kinds.get("body"),
        "is_body_optional": body is not None and body.default is not body.empty,
        "query": kinds.get("query"),
        "answer": get_args(answer)[0] if has_more else answer,
    }


Methods = Mapping[str, Route]


class Table:
    """Finds the routes of a path; literal parts match before names."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._root = _Node()
        for each in routes:
            node = self._root
            for part in _parts(each.path):
                node = node.named if part[0] == "{" else node.children.setdefault(part, _Node())
            node.methods[each.method] = each
        self._plain = {each.path: self._shared(each.path) for each in routes if not each.names}

    def find(self, path: str) -> tuple[Methods, list[str]]:
        """The routes of a path by method, and the values of its names; empty if there are none.

        A route without names may come with a value, of the name of another method.
        """
        plain = self._plain.get(path)
        return _found(self._root, _parts(path)) if plain is None else plain

    def _shared(self, path: str) -> tuple[Methods, list[str]]:
        """The routes of a path without names, and those of a record with the name of its last part.

        A schedule may be called `pause`: `POST /v1/schedules/pause` pauses many, GET shows it.
        """
        parts, parent = _parts(path), self._root
        methods, _ = _found(parent, parts)
        for part in parts[:-1]:
            parent = parent.children[part]
        others = parent.named.methods if parts and parent.has_named else {}
        free = {method: each for method, each in others.items() if [*each.names] == ["name"]}
        return free | dict(methods), parts[-1:] if free else []


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


class _Node:
    """A node of the tree of paths."""

    def __init__(self) -> None:
        self.methods: dict[str, Route] = {}
        self.children: dict[str, _Node] = {}
        self._named: _Node | None = None

    @property
    def named(self) -> _Node:
        """The node for a name as the next part."""
        if self._named is None:
            self._named = _Node()
        return self._named

    @property
    def has_named(self) -> bool:
        return self._named is not None


def _found(node: _Node, parts: list[str]) -> tuple[Methods, list[str]]:
    if not parts:
        return node.methods, []
    first, rest = parts[0], parts[1:]
    if first in node.children:
        methods, values = _found(node.children[first], rest)
        if methods:
            return methods, values
    if not node.has_named:
        return {}, []
    methods, values = _found(node.named, rest)
    return methods, [first, *values]
