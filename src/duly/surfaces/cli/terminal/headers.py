"""HTTP headers from command-line flags."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from cyclopts import Parameter

from duly.errors import InvalidInput

Headers = Annotated[
    tuple[str, ...],
    Parameter(
        name=("--header", "-H"),
        negative=(),
        show_default=False,
        help="As in 'X-Team: 7'; may be given several times.",
    ),
]


def pairs(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Names and values. An error never quotes a line: it may contain a secret."""
    found = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise InvalidInput("header", "one has no colon; write 'Name: value'")
        found.append((name.strip(), value.strip()))
    return found


def each_once(given: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers by name; InvalidInput if one is given twice, regardless of case."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    for name, value in given:
        if name.lower() in seen:
            raise InvalidInput("header", f"{name!r} is given twice; give it once")
        seen.add(name.lower())
        found[name] = value
    return found
