"""Deliveries listed by lateness: what started late, also long ago, and what still waits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.errors import InvalidInput
from duly.records.delivery import Delivery as Record
from duly.stores.deliveries import pages
from duly.testing import VirtualClock, run_until_idle

pytestmark = pytest.mark.requirement("L7")


@pytest.fixture
async def late(app: App, clock: VirtualClock) -> dict[str, str]:
    """Deliveries that were late by as many minutes as their names say, and others."""

    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        pass

    @app.handler("fails", retry=duly.delays(3600))
    async def fails(delivery: Delivery[Any]) -> None:
        raise ConnectionError

    ids = {}
    for minutes in (3, 30, 10):
        ids[f"{minutes}"] = (await app.deliver("work", minutes)).id
        clock.advance(minutes * 60)
        await run_until_idle(app)
    ids["on time"] = (await app.deliver("work", 0)).id
    ids["retried"] = (await app.deliver("fails", 0)).id
    await run_until_idle(app)
    clock.advance(2 * 3600)
    await run_until_idle(app)  # its second attempt is two hours after it was due, its first was not
    ids["cancelled"] = (await app.deliver("work", 0)).id
    ids["20 waiting"] = (await app.deliver("work", 0)).id
    ids["future"] = (await app.deliver("work", 0, after=3600)).id
    clock.advance(13 * 60)
    ids["7 waiting"] = (await app.deliver("work", 0)).id
    clock.advance(7 * 60)
    await app.cancel(ids["cancelled"])
    return ids


def names(found: Sequence[Record], ids: dict[str, str]) -> list[str]:
    known = {id: name for name, id in ids.items()}
    return [known[each.id] for each in found]


@pytest.mark.parametrize(
    ("late_over", "expected"),
    [
        ("5m", {"10", "30", "20 waiting", "7 waiting"}),
        (timedelta(minutes=10), {"30", "20 waiting"}),
        (1799.999, {"30"}),
        (30 * 60, set()),
        (0, {"3", "10", "30", "20 waiting", "7 waiting"}),
    ],
)
async def test_late_over_finds_what_started_or_waits_that_much_after_it_was_due(
    app: App, late: dict[str, str], late_over: str | float | timedelta, expected: set[str]
) -> None:
    found = await app.deliveries.list(late_over=late_over)
    assert set(names(found, late)) == expected


async def test_late_over_works_with_other_filters_and_in_counts(
    app: App, late: dict[str, str]
) -> None:
    completed = await app.deliveries.list(late_over="5m", state="completed")
    assert set(names(completed, late)) == {"10", "30"}
    counts = await app.deliveries.counts(late_over="5m")
    assert {state: many for state, many in counts.states.items() if many} == {
        "completed": 2,
        "pending": 2,
    }
    assert await app.deliveries.count(late_over="5m") == 2


async def test_the_order_is_of_those_that_match(app: App, late: dict[str, str]) -> None:
    await app.deliver("work", 1, key="one", tags=["red"])
    await app.deliver("work", 1, tags=["red"], stream="line")
    for wanted in ({"key": "one"}, {"tag": "red"}, {"stream": "line"}, {"id": late["30"]}):
        found = await app.deliveries.list(sort="lateness", **wanted)  # type: ignore[arg-type]
        assert [each.id for each in found] == [
            each.id
            for each in await app.deliveries.list(**wanted)  # type: ignore[arg-type]
        ]
    assert names(await app.deliveries.list(sort="lateness", target="fails"), late) == ["retried"]


ORDER = ["30", "20 waiting", "10", "7 waiting", "3"]
NOT_LATE = {"on time", "retried"}


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
async def test_the_most_late_come_first_on_all_pages(
    app: App, late: dict[str, str], limit: int
) -> None:
    found: list[Record] = []
    before = None
    while True:
        page = await app.deliveries.page(sort="lateness", before=before, limit=limit)
        found += page.items
        if (before := page.next) is None:
            break
    listed = names(found, late)
    assert listed[:5] == ORDER
    assert set(listed[5:]) == NOT_LATE
    assert len(listed) == 7
    assert names(await app.deliveries.list(sort="lateness"), late) == listed


async def test_a_delivery_that_starts_between_two_pages_is_neither_repeated_nor_left_out(
    app: App, late: dict[str, str], clock: VirtualClock
) -> None:
    first = await app.deliveries.page(sort="lateness", limit=2)
    assert names(first.items, late) == ORDER[:2]
    clock.advance(15 * 60)  # by now it waits for longer than the first one did
    await run_until_idle(app)
    second = await app.deliveries.page(sort="lateness", before=str(first.next), limit=50)
    assert names(second.items, late)[:3] == ORDER[2:]
    assert set(names(second.items, late)[3:]) == NOT_LATE
    again = await app.deliveries.list(sort="lateness", late_over="5m")
    assert names(again, late) == ["20 waiting", "30", "7 waiting", "10"]


async def test_lateness_is_not_ordered_among_more_rows_than_allowed(
    app: App, late: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_COMPARED", 10)
    assert await app.deliveries.list(sort="lateness")
    monkeypatch.setattr(pages, "MOST_COMPARED", 7)
    with pytest.raises(InvalidInput, match=r"sort: more than 7 .* give late_over"):
        await app.deliveries.list(sort="lateness")
    assert await app.deliveries.list(sort="lateness", late_over="5m")
    monkeypatch.setattr(pages, "MOST_COMPARED_LATE", 7)
    with pytest.raises(InvalidInput, match=r"sort: .* since and until"):
        await app.deliveries.list(sort="lateness", late_over="5m")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"late_over": "five"}, "late_over"),
        ({"late_over": -1}, "late_over"),
        ({"sort": "age"}, "sort"),
        ({"sort": "lateness", "before": "not-a-cursor"}, "before"),
        ({"sort": "lateness", "before": "not-a-cursor@17"}, "id"),
    ],
)
async def test_bad_input_is_refused(small_app: App, given: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await small_app.deliveries.list(**given)  # type: ignore[arg-type]
    assert refused.value.field == field
