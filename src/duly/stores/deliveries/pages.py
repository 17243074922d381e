"""Lists of deliveries: by id, of a stream by position, of a schedule by occurrence, of a batch, by
lateness, and those being processed by the lanes that are held.

Filters without an index search a limited number of rows for each page, so that the cost of a page
does not depend on the size of the ledger.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from duly.domain.deliveries.identifiers import delivery_id, span_of
from duly.domain.deliveries.lateness import LatenessCursor, cursor_in
from duly.errors import InvalidInput
from duly.ports import Filter
from duly.records.delivery import Delivery
from duly.records.state import State
from duly.stores.database import Database
from duly.stores.deliveries.maintenance import BEGINNING, END
from duly.stores.deliveries.rows import delivery_of

MOST = 10_000
"""The number of rows that one page searches."""
MOST_COMPARED = 100_000
"""The number of rows that can be ordered by lateness. It has no index: one with the start of an
attempt in it would have to be written with every completion."""
MOST_COMPARED_LATE = 500_000
"""The same with `late_over`: of most rows the history is not read then."""
NEAR = 4
"""How many rows are searched first, for each one that is wanted."""
SKEW = timedelta(days=1)
"""The greatest difference between the clock that made an id and the store's clock."""
Shelf = Literal["page", "line", "occurrences", "members", "under_way"]
FIRST: dict[Shelf, Any] = {"page": BEGINNING, "line": 0, "occurrences": "", "members": BEGINNING}
"""The lowest value of each order; `under_way` has none, as it is always short."""


async def page(
    database: Database, namespace: str, filter: Filter
) -> tuple[list[Delivery], str | None]:
    """A page, and the id or cursor to continue from, None at the end."""
    if filter.sort is not None:
        return await _by_lateness(database, namespace, filter)
    parameters = _parameters(namespace, filter) | {"before": _start(filter)}
    if filter.key is not None:
        rows = await database.fetch_named("pages.by_key", **parameters)
        found = [delivery_of(row, payload=filter.payloads) for row in rows]
        following = found[-1].id if len(found) == filter.limit else None
        return [each for each in found if each.id >= (_first(filter) or BEGINNING)], following
    if _shelf(filter) == "occurrences":
        return await _of_schedule(database, filter, parameters)
    return await _search(database, filter, parameters)


def _parameters(namespace: str, filter: Filter) -> dict[str, Any]:
    # SQLite has another use for a parameter named `batch`.
    return msgspec.structs.asdict(filter) | {"namespace": namespace, "in_batch": filter.batch}


async def _by_lateness(
    database: Database, namespace: str, filter: Filter
) -> tuple[list[Delivery], str | None]:
    """A page of all that match, most late first."""
    within = msgspec.structs.replace(
        filter, before=None, stream=None, schedule=None, batch=None, state=None
    )
    ceiling, floor = _start(within), _first(filter) or BEGINNING
    most = MOST_COMPARED if filter.late_over is None else MOST_COMPARED_LATE
    if filter.key is None:
        await _check_comparable(database, ceiling, floor, most)
    parameters = _parameters(namespace, filter)
    parameters |= {"ceiling": ceiling, "floor": floor, "late_below": None}
    if filter.before is None:
        as_of = (await database.fetch_named("pages.now"))[0]["now_at"]
        parameters |= {"as_of": as_of, "before": END}
    else:
        cursor = cursor_in(filter.before)
        as_of = cursor.as_of
        parameters |= {"as_of": as_of, "before": cursor.id}
        rows = await database.fetch_named("pages.late_below", **parameters)
        if not rows or rows[0]["late"] is None:
            return [], None
        parameters["late_below"] = rows[0]["late"]
    statement = "pages.lateness" if filter.key is None else "pages.lateness_by_key"
    rows = await database.fetch_named(statement, **parameters)
    found = [delivery_of(row, payload=filter.payloads) for row in rows]
    is_full = len(found) == filter.limit
    return found, str(LatenessCursor(as_of, found[-1].id)) if is_full else None


async def _check_comparable(database: Database, ceiling: str, floor: str, most: int) -> None:
    more = await database.fetch_named("pages.floor", before=ceiling, most=most)
    if more and str(more[0]["id"]) >= floor:
        raise InvalidInput(
            "sort",
            f"more than {most:,} deliveries would have to be compared; give late_over, and since "
            "and until as close together as possible",
        )


async def counts(
    database: Database, namespace: str, filter: Filter
) -> tuple[dict[State, int], bool]:
    """How many match by state, among the newest rows; and whether older rows were left out."""
    if filter.key is not None:
        filter = msgspec.structs.replace(filter, limit=MOST, payloads=False)
        found, following = await page(database, namespace, filter)
        return dict(Counter(each.state for each in found)), following is not None
    # Also those of a stream or schedule are counted in the order of their ids.
    start = _start(msgspec.structs.replace(filter, stream=None, schedule=None, batch=None))
    parameters = _parameters(namespace, filter) | {"before": start}
    shelf: Shelf = "page" if filter.batch is None else "members"
    stop, floor = await _floor(database, shelf, filter, parameters, MOST)
    statement = "pages.counts" if filter.batch is None else "pages.member_counts"
    rows = await database.fetch_named(statement, **parameters, floor=floor)
    return {State(row["state"]): row["count"] for row in rows}, stop is not None


async def _of_schedule(
    database: Database, filter: Filter, parameters: dict[str, Any]
) -> tuple[list[Delivery], str | None]:
    """Page through each number of the schedule, including those before it was removed."""
    numbers = [row["id"] for row in await database.fetch_named("pages.numbers", **parameters)]
    if filter.before is not None:
        rows = await database.fetch_named("pages.number_of", **parameters)
        last = rows[0]["schedule"] if rows else None
        numbers = numbers[numbers.index(last) :] if last in numbers else []
    found: list[Delivery] = []
    for number in numbers:
        left = msgspec.structs.replace(filter, limit=filter.limit - len(found))
        numbered = parameters | {"number": number, "limit": left.limit}
        more, following = await _search(database, left, numbered)
        found += more
        if following is not None:
            return found, following
        parameters = parameters | {"before": END}
    return found, None


async def _search(
    database: Database, filter: Filter, parameters: dict[str, Any]
) -> tuple[list[Delivery], str | None]:
    # Usually the first rows fill the page; to find the end of the whole search takes longer.
    near = min(NEAR * filter.limit, MOST)
    found, stop = await _search_among(database, filter, parameters, near)
    if len(found) < filter.limit and stop is not None and near < MOST:
        found, stop = await _search_among(database, filter, parameters, MOST)
    return found, found[-1].id if len(found) == filter.limit else stop


async def _search_among(
    database: Database, filter: Filter, parameters: dict[str, Any], most: int
) -> tuple[list[Delivery], str | None]:
    """What matches among the first rows, and the id of the last of them, None at the end."""
    shelf = _shelf(filter)
    stop, floor = await _floor(database, shelf, filter, parameters, most)
    rows = await database.fetch_named(
        f"pages.{shelf}", **parameters, floor=floor, stop=stop or BEGINNING
    )
    return [delivery_of(row, payload=filter.payloads) for row in rows], stop


async def _floor(
    database: Database, shelf: Shelf, filter: Filter, parameters: dict[str, Any], most: int
) -> tuple[str | None, Any]:
    """Where the search ends: the id of the last row, None if there are no more, and its place."""
    if shelf not in FIRST:
        return None, None
    name = "pages.floor" if shelf == "page" else f"pages.{shelf}_floor"
    # `fetch_named`, since on SQLite a read does not wait for a transaction that holds the writer.
    rows = [
        list(row.values()) for row in await database.fetch_named(name, **parameters, most=most - 1)
    ]
    stop, place = (rows[0][0], rows[0][-1]) if rows else (None, FIRST[shelf])
    first = _first(filter)
    if shelf == "page" and first is not None:
        return (stop, stop) if stop is not None and stop > first else (None, first)
    return stop, place


def _first(filter: Filter) -> str | None:
    """The lowest id that may match; None if any may."""
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
    if filter.batch is not None:
        return "members"
    return "under_way" if filter.state is State.PROCESSING else "page"


def _start(filter: Filter) -> str:
    """The id to start below: ids contain roughly their time, so later ones are skipped."""
    before = filter.before or END
    if filter.id is not None:
        before = min(before, span_of(filter.id)[1])
    if filter.until is None or _shelf(filter) != "page":
        return before
    return min(before, _id_at(filter.until + SKEW))


def _id_at(moment: datetime) -> str:
    return delivery_id(max(0, int(moment.timestamp() * 1000)), 0)
