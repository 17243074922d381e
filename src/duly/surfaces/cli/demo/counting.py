"""Compares what arrived at the receiver of the demo with what was accepted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import pairwise

import msgspec


class Kind(StrEnum):
    """The kinds of sample work."""

    ORDERS = "orders"
    REMINDERS = "reminders"
    REPORTS = "reports"
    BIRTHDAYS = "birthdays"
    OFFLINE = "offline"


class Item(msgspec.Struct, frozen=True):
    """What one delivery is about; two deliveries with the same item are a duplicate."""

    kind: Kind
    name: str
    stream: str | None = None
    number: int = 0
    """The position in the stream."""


class Request(msgspec.Struct, frozen=True):
    """One request at the receiver."""

    at: datetime
    id: str
    item: Item
    verified: bool = True


class Outage(msgspec.Struct, frozen=True):
    """When the server was killed and started again, and what was stored as completed meanwhile."""

    killed_at: datetime
    restarted_at: datetime
    completed: frozenset[str] = frozenset()


class KindCount(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one kind: `late` ones were due before the restart and arrived after it."""

    kind: Kind
    accepted: int
    arrived: int
    late: int
    lost: int
    doubled: int


class DemoResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a demo; it is `ok` if everything arrived exactly once, signed and in order.

    `sent_again` counts deliveries that were being sent when the server was killed. They are sent
    again with the same id, by which a receiver recognises them.
    """

    ok: bool
    accepted: int
    arrived: int
    late: int
    longest_late_seconds: float
    lost: int
    doubled: int
    sent_again: int
    out_of_order: int
    not_verified: int
    requests: int
    seconds_away: float
    kinds: list[KindCount]


def counted(
    accepted: Mapping[Kind, int],
    requests: Sequence[Request],
    outage: Outage,
    due: Mapping[str, datetime],
) -> DemoResult:
    """Count everything; `due` has the due moment of each delivery by its id."""
    firsts = first_arrivals(requests)
    late = [each for each in firsts if _is_late(each, outage, due)]
    repeated = _repeated(requests, outage)
    kinds = [
        _of_kind(kind, many, [each for each in requests if each.item.kind is kind], late, repeated)
        for kind, many in accepted.items()
    ]
    lost, doubled = sum(each.lost for each in kinds), sum(each.doubled for each in kinds)
    out_of_order = _out_of_order(firsts)
    not_verified = sum(not each.verified for each in requests)
    return DemoResult(
        ok=not (lost or doubled or out_of_order or not_verified),
        accepted=sum(accepted.values()),
        arrived=sum(each.arrived for each in kinds),
        late=len(late),
        longest_late_seconds=_longest(late, due),
        lost=lost,
        doubled=doubled,
        sent_again=len(_sent_again(requests) - repeated),
        out_of_order=out_of_order,
        not_verified=not_verified,
        requests=len(requests),
        seconds_away=round((outage.restarted_at - outage.killed_at).total_seconds(), 1),
        kinds=kinds,
    )


def first_arrivals(requests: Iterable[Request]) -> list[Request]:
    """The first request of each item, in the order of arrival."""
    firsts: dict[Item, Request] = {}
    for each in requests:
        firsts.setdefault(each.item, each)
    return list(firsts.values())


def _of_kind(
    kind: Kind,
    accepted: int,
    requests: Sequence[Request],
    late: Iterable[Request],
    repeated: Collection[str],
) -> KindCount:
    ids: dict[Item, set[str]] = defaultdict(set)
    for each in requests:
        ids[each.item].add(each.id)
    # Two ids for one item, items that nobody accepted, and ids that must not have come again.
    doubled = sum(len(each) - 1 for each in ids.values()) + max(0, len(ids) - accepted)
    return KindCount(
        kind=kind,
        accepted=accepted,
        arrived=len(ids),
        late=sum(each.item.kind is kind for each in late),
        lost=max(0, accepted - len(ids)),
        doubled=doubled + len({each.id for each in requests} & set(repeated)),
    )


def _repeated(requests: Iterable[Request], outage: Outage) -> set[str]:
    """Ids that came more often than a crash explains.

    It explains one request before the restart and one after it, unless the store already had the
    delivery as completed.
    """
    before, after = Counter[str](), Counter[str]()
    for each in requests:
        (before if each.at < outage.restarted_at else after)[each.id] += 1
    return {
        id
        for id in before | after
        if max(before[id], after[id]) > 1 or (before[id] and after[id] and id in outage.completed)
    }


def _sent_again(requests: Iterable[Request]) -> set[str]:
    return {id for id, times in Counter(each.id for each in requests).items() if times > 1}


def _is_late(first: Request, outage: Outage, due: Mapping[str, datetime]) -> bool:
    return first.at >= outage.restarted_at > due.get(first.id, first.at)


def _longest(late: Iterable[Request], due: Mapping[str, datetime]) -> float:
    waits = ((each.at - due[each.id]).total_seconds() for each in late)
    return round(max(waits, default=0.0), 1)


def _out_of_order(firsts: Iterable[Request]) -> int:
    """How many items of a stream arrived before an earlier item of it."""
    streams: dict[str, list[int]] = defaultdict(list)
    for each in firsts:
        if each.item.stream is not None:
            streams[each.item.stream].append(each.item.number)
    return sum(
        later < earlier for numbers in streams.values() for earlier, later in pairwise(numbers)
    )
