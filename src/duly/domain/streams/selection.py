"""Which deliveries behind a failed head leave the queue, chosen by an operator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from duly.domain import checks
from duly.domain.streams.operations import FAILED, Member
from duly.domain.streams.stream import StreamRow, to_do
from duly.errors import Conflict, InvalidInput
from duly.records.state import State

MOST_CHOSEN = 1000
MOST_RELEASED = 10_000
"""How many one call releases: they are moved in one transaction."""


class Selection(msgspec.Struct, frozen=True):
    """The followers to release, or those to keep while all others are released."""

    field: Literal["only", "keep"]
    ids: tuple[str, ...]


def checked_selection(only: Iterable[str] | None, keep: Iterable[str] | None) -> Selection | None:
    """The selection of a release; None if everything behind the head is released."""
    if only is not None and keep is not None:
        raise InvalidInput("keep", "give only or keep, not both")
    if only is not None:
        return Selection("only", _checked("only", only))
    return None if keep is None else Selection("keep", _checked("keep", keep))


def _checked(field: str, given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidInput(field, f"give a list, as in [{given!r}]")
    try:
        ids = tuple(dict.fromkeys(map(checks.checked_id, given)))
    except InvalidInput as error:
        raise InvalidInput(field, error.problem) from None
    if not 1 <= len(ids) <= MOST_CHOSEN:
        raise InvalidInput(field, f"it has {len(ids)} ids; give 1 to {MOST_CHOSEN}")
    return ids


def refuse_unless_behind(line: StreamRow, chosen: Selection, members: Sequence[Member]) -> None:
    """Raise Conflict if the head has not failed, and InvalidInput for an id that is not behind it.

    `members` are the chosen deliveries that have a position in any stream.
    """
    if line.state not in FAILED:
        raise Conflict(
            f"stream {line.name!r} is {line.state}; only while its head is dead or waits for its "
            f"retry can those behind it be released; {to_do(line)}"
        )
    waiting = {each.id for each in members if _waits(each, line)}
    for id in chosen.ids:
        if id == line.head:
            raise InvalidInput(
                chosen.field, f"{id} is the head; leave it out: it stays where it is"
            )
        if id not in waiting:
            raise InvalidInput(
                chosen.field, f"{id} does not wait in stream {line.name!r}; list those that do"
            )


def _waits(member: Member, line: StreamRow) -> bool:
    return member.lane == line.lane and member.state == State.PENDING


def released(line: StreamRow, chosen: Selection, followers: Sequence[str]) -> list[str]:
    """The ids to release; `followers` are those behind the head, one more than can be released.

    InvalidInput if none or too many are left beside the kept ones.
    """
    if chosen.field == "only":
        return list(chosen.ids)
    found = [id for id in followers if id not in set(chosen.ids)]
    if not found:
        raise InvalidInput("keep", f"nothing else waits in stream {line.name!r}; leave one out")
    if len(found) > MOST_RELEASED:
        raise InvalidInput(
            "keep",
            f"more than {MOST_RELEASED:,} others wait in stream {line.name!r}; give only instead",
        )
    return found
