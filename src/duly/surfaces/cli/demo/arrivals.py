"""What the receiver of the demo has received so far."""

from __future__ import annotations

from collections import Counter

import msgspec

from duly.surfaces.cli.demo.counting import Item, Kind, Request
from duly.surfaces.cli.receiving.received import Received


class Body(msgspec.Struct, frozen=True):
    """The fields by which the work of the demo is recognised."""

    kind: Kind | None = None
    number: int = 0
    stream: str | None = None
    message: str | None = None
    """The text of a birthday greeting."""


class Arrivals:
    """Every request, and how many items of each kind have arrived."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._items: set[Item] = set()
        self.by_kind: Counter[Kind] = Counter()

    def add(self, received: Received) -> None:
        """Record a request."""
        item = item_of(received.body)
        verified = received.verified is True and received.id is not None
        self.requests.append(Request(received.at, received.id or "", item, verified))
        if item not in self._items:
            self._items.add(item)
            self.by_kind[item.kind] += 1

    @property
    def count(self) -> int:
        """How many different items have arrived."""
        return len(self._items)


def item_of(body: msgspec.Raw | str) -> Item:
    """What a delivery is about, by its body; a report is known by its moment."""
    text = body if isinstance(body, str) else bytes(body).decode()
    try:
        found = msgspec.json.decode(text, type=Body)
    except msgspec.DecodeError:
        return Item(Kind.REPORTS, text)
    if found.kind is not None:
        return Item(found.kind, str(found.number), found.stream, found.number)
    return Item(Kind.REPORTS if found.message is None else Kind.BIRTHDAYS, found.message or text)
