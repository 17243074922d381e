"""A tool: a function with a name, a description, and arguments with a JSON schema."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, get_type_hints

import msgspec

from duly.errors import misfit
from duly.ports import Clock
from duly.resources import Resources

Arguments = TypeVar("Arguments", bound=msgspec.Struct)
Run = Callable[["Backend", Arguments], Awaitable[object]]


class Backend(Resources, Protocol):
    """What the tools use: a namespace of a store, or a client of a server."""

    @property
    def clock(self) -> Clock: ...


@dataclass(frozen=True)
class Tool:
    """A tool; one that `acts` changes something, all others only read."""

    name: str
    description: str
    arguments: type[msgspec.Struct]
    run: Callable[[Backend, Any], Awaitable[object]]
    acts: bool

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments; clients require an object at its root."""
        (root,), parts = msgspec.json.schema_components(
            [self.arguments], ref_template="#/$defs/{name}"
        )
        top = parts.pop(root["$ref"].rpartition("/")[2])
        return {
            "type": "object",
            "properties": {name: _without_null(each) for name, each in top["properties"].items()},
            "required": top["required"],
            "additionalProperties": False,
            **({"$defs": parts} if parts else {}),
        }

    async def call(self, backend: Backend, given: Mapping[str, Any]) -> object:
        """The result of the tool; InvalidInput if the arguments are not valid."""
        try:
            arguments = msgspec.convert(dict(given), self.arguments)
        except msgspec.ValidationError as error:
            raise misfit(error, "arguments") from error
        return await self.run(backend, arguments)


def look(run: Run[Arguments]) -> Tool:
    """A tool that reads, named and described by its function."""
    return _tool(run, acts=False)


def act(run: Run[Arguments]) -> Tool:
    """A tool that changes something."""
    return _tool(run, acts=True)


def _tool(run: Run[Any], *, acts: bool) -> Tool:
    description = inspect.getdoc(run)
    assert description is not None, "a tool needs a description"
    _, given = inspect.signature(run).parameters
    arguments = get_type_hints(run)[given]
    return Tool(run.__name__, " ".join(description.split()), arguments, run, acts)


def _without_null(part: dict[str, Any]) -> dict[str, Any]:
    """The schema of an argument that may be left out; null says the same, and only adds words."""
    match part:
        case {"anyOf": [kind, {"type": "null"}]}:
            return dict(kind)
    return part
