"""Ids from the command line: whole, or as many first characters as are unique."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated
from uuid import UUID

from cyclopts import Parameter

from duly.domain.access import keys
from duly.domain.checks import SHORTEST_BEGINNING, checked_beginning
from duly.errors import InvalidInput, NotFound
from duly.records.state import State
from duly.surfaces.cli.terminal.flags import Backend

Id = Annotated[str, Parameter(help="Its id, or the first characters of it.")]
LISTED = 3
"""How many matching ids an error names."""
KEY_BEGINNING = re.compile(rf"[a-z2-7]{{{SHORTEST_BEGINNING},15}}\Z")


async def whole_id(app: Backend, given: str, *, dead: bool = False) -> str:
    """The whole id of a delivery; with `dead`, dead letters take precedence."""
    try:
        return str(UUID(given))
    except ValueError:
        beginning = checked_beginning(given)
    found = await _beginning(app, beginning, State.DEAD) if dead else []
    return _only(given, found or await _beginning(app, beginning), "delivery", "deliveries")


async def _beginning(app: Backend, beginning: str, state: State | None = None) -> list[str]:
    return [
        each.id
        for each in await app.deliveries.list(
            id=beginning, state=state, limit=LISTED + 1, payloads=False
        )
    ]


async def whole_key_id(app: Backend, given: str) -> str:
    """The whole id of a key."""
    if keys.ID.match(given) or not KEY_BEGINNING.match(given):
        return keys.checked_id(given)
    # Ids that begin with a text sort directly after it.
    found = [each.id for each in await app.keys.list(after=given, limit=LISTED + 1)]
    return _only(given, [each for each in found if each.startswith(given)], "key", "keys")


async def only_id(
    given: str, search: Callable[[], Awaitable[Sequence[str]]], kind: str, kinds: str
) -> str:
    """The whole id, if it is given or the only one found that begins with what is given."""
    try:
        return str(UUID(given))
    except ValueError:
        beginning = checked_beginning(given)
    found = [each for each in await search() if each.replace("-", "").startswith(beginning)]
    return _only(given, found, kind, kinds)


def _only(given: str, found: Sequence[str], kind: str, kinds: str) -> str:
    if not found:
        raise NotFound(kind, given, f"no {kind} has an id that begins with it")
    if len(found) > 1:
        count = len(found) if len(found) <= LISTED else f"more than {LISTED}"
        raise InvalidInput(
            "id",
            f"{count} {kinds} begin with {given}; give more of it: {', '.join(found[:LISTED])}",
        )
    return found[0]
