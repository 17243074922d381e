"""What people ask for when they list deliveries, checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from duly.domain import checks
from duly.domain.deliveries import states
from duly.domain.deliveries.delivery import Delivery
from duly.domain.deliveries.states import State
from duly.domain.endpoints.endpoint import wanted_target
from duly.domain.streams.policy import checked_stream
from duly.ports import Filter, Store


class Wanted(TypedDict, total=False):
    """Which deliveries to list."""

    id: str | None
    """How their ids begin."""
    state: State | str | None
    target: str | None
    tag: str | None
    key: str | None
    stream: str | None
    schedule: str | None
    reason: str | None
    text: str | None
    since: datetime | None
    until: datetime | None


class Page(msgspec.Struct, frozen=True):
    """Some deliveries, and the id to go on from, None at the end."""

    items: Sequence[Delivery]
    next: str | None


async def page(store: Store, wanted: Wanted, before: str | None, limit: int) -> Page:
    """One page; there may be fewer than asked for and still more to come."""
    return Page(*await store.deliveries.page(checked(wanted, before, limit)))


async def listed(store: Store, wanted: Wanted, before: str | None, limit: int) -> list[Delivery]:
    """As many as asked for, if there are so many."""
    filter, found = checked(wanted, before, limit), list[Delivery]()
    while True:
        more, next = await store.deliveries.page(filter)
        found += more
        if next is None or len(found) >= limit:
            return found
        filter = msgspec.structs.replace(filter, before=next, limit=limit - len(found))


def checked(wanted: Wanted, before: str | None, limit: int) -> Filter:
    """The filter with each of its fields checked."""
    given = {name: FIELDS[name](value) for name, value in wanted.items() if value is not None}
    start = None if before is None else checks.checked_id(before)
    return Filter(**given, before=start, limit=checks.checked_limit(limit))


def _text(field: str, limit: int = checks.KEY_LIMIT) -> Callable[[object], str]:
    return lambda value: checks.checked_text(field, value, limit)


FIELDS: dict[str, Callable[[Any], Any]] = {
    "id": checks.checked_beginning,
    "state": states.checked_state,
    "target": wanted_target,
    **{name: _text(name) for name in ("tag", "key", "schedule", "reason")},
    "stream": checked_stream,
    "text": _text("text", 1000),
    "since": lambda value: checks.checked_moment("since", value),
    "until": lambda value: checks.checked_moment("until", value),
}
