"""Lists of deliveries: by their ids, a stream's by their places, a schedule's by its occurrences,
and those under way by the lanes that are held.

What no index knows is looked for among so many at a time, so that a page costs the same however
large the ledger is.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from duly.domain.deliveries.delivery import Delivery
from duly.domain.deliveries.identifiers import delivery_id, span_of
from duly.domain.deliveries.states import State
from duly.ports import Filter
from duly.stores.database import Database
from duly.stores.deliveries.maintenance import BEGINNING, END
from duly.stores.deliveries.rows import delivery_of

MOST = 10_000
"""How many a page looks at."""
SKEW = timedelta(days=1)
"""How far the clock of whoever made an id may be from the store's."""
Shelf = Literal["page", "line", "occurrences", "under_way"]
FIRST: dict[Shelf, Any] = {"page": BEGINNING, "line": 0, "occurrences": ""}
"""The lowest place on each shelf; on one that is never long nothing is passed over."""


async def page(
    database: Database, namespace: str, filter: Filter
) -> tuple[list[Delivery], str | None]:
    """A page, and the id to go on from, None at the end."""
    wanted = msgspec.structs.asdict(filter) | {"namespace": namespace, "before": _start(filter)}
    if filter.key is not None:
        rows = await database.fetch_named("pages.by_key", **wanted)
        found = [delivery_of(row) for row in rows]
        return [each for each in found if each.id >= (_first(filter) or BEGINNING)], None
    if _shelf(filter) == "occurrences":
        return await _of_schedule(database, filter, wanted)
    return await _looked(database, filter, wanted)


async def _of_schedule(
    database: Database, filter: Filter, wanted: dict[str, Any]
) -> tuple[list[Delivery], str | None]:
    """By each number that the schedule has, or had before it was removed, the latest first."""
    numbers = [row["id"] for row in await database.fetch_named("pages.numbers", **wanted)]
    if filter.before is not None:
        rows = await database.fetch_named("pages.number_of", **wanted)
        last = rows[0]["schedule"] if rows else None
        numbers = numbers[numbers.index(last) :] if last in numbers else []
    found: list[Delivery] = []
    for number in numbers:
        left = msgspec.structs.replace(filter, limit=filter.limit - len(found))
        asked = wanted | {"number": number, "limit": left.limit}
        more, following = await _looked(database, left, asked)
        found += more
        if following is not None:
            return found, following
        wanted = wanted | {"before": END}
    return found, None


async def _looked(
    database: Database, filter: Filter, wanted: dict[str, Any]
) -> tuple[list[Delivery], str | None]:
    shelf = _shelf(filter)
    stop, floor = await _floor(database, shelf, filter, wanted)
    rows = await database.fetch_named(
        f"pages.{shelf}", **wanted, floor=floor, stop=stop or BEGINNING
    )
    found = [delivery_of(row) for row in rows]
    return found, found[-1].id if len(found) == filter.limit else stop


async def _floor(
    database: Database, shelf: Shelf, filter: Filter, wanted: dict[str, Any]
) -> tuple[str | None, Any]:
    """How far down to look: the last one's id, None when there are no more, and its place."""
    if shelf not in FIRST:
        return None, None
    name = "pages.floor" if shelf == "page" else f"pages.{shelf}_floor"
    # Among the readers, as the rest of a list: on SQLite it works while somebody holds the writer.
    rows = [list(row.values()) for row in await database.fetch_named(name, **wanted, most=MOST - 1)]
    stop, place = (rows[0][0], rows[0][-1]) if rows else (None, FIRST[shelf])
    first = _first(filter)
    if shelf == "page" and first is not None:
        return (stop, stop) if stop is not None and stop > first else (None, first)
    return stop, place


def _first(filter: Filter) -> str | None:
    """The first id that may match; None when any may."""
    since = None if filter.since is None else _id_at(filter.since - SKEW)
    beginning = None if filter.id is None else span_of(filter.id)[0]
    return max((each for each in (since, beginning) if each is not None), default=None)


def _shelf(filter: Filter) -> Shelf:
    if filter.id is not None:
        return "page"
    if filter.stream is not None:
        return "line"
    if filter.schedule is not None:
        return "occurrences"
    return "under_way" if filter.state is State.PROCESSING else "page"


def _start(filter: Filter) -> str:
    """Where to begin: ids tell roughly when they were made, so what is later is passed over."""
    before = filter.before or END
    if filter.id is not None:
        before = min(before, span_of(filter.id)[1])
    if filter.until is None or _shelf(filter) != "page":
        return before
    return min(before, _id_at(filter.until + SKEW))


def _id_at(moment: datetime) -> str:
    return delivery_id(max(0, int(moment.timestamp() * 1000)), 0)
