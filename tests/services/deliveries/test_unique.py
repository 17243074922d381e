"""Of deliveries with the same unique key only one waits."""

from __future__ import annotations

from typing import Any

import pytest

from duly import App
from duly.errors import Conflict, InvalidInput
from duly.records.delivery import Accepted
from duly.testing import VirtualClock, run_until_idle
from tests.services.work import Work, running, until_set

pytestmark = pytest.mark.requirement("P7")


async def deliver(app: App, payload: Any, **options: Any) -> Accepted:
    given = {"key": "customer:7", "unique": "pending"} | options
    return await app.deliver("work", payload, **given)


async def test_the_newcomer_is_dropped_while_one_waits(work: Work) -> None:
    first = await deliver(work.app, "a", after=60)
    second = await deliver(work.app, "b")
    assert (second.id, second.known, second.due_at) == (first.id, True, first.due_at)
    await run_until_idle(work.app, within=60)
    assert work.seen == ["a"]
    third = await deliver(work.app, "c")
    assert not third.known
    await run_until_idle(work.app)
    assert work.seen == ["a", "c"]


async def test_the_newcomer_replaces_the_contents_of_the_one_that_waits(work: Work) -> None:
    first = await deliver(work.app, "a", after=60, priority=2, tags=["old"])
    second = await deliver(work.app, "b", after=90, on_duplicate="replace", priority=8, tags=["x"])
    assert (second.id, second.known, second.due_at) == (first.id, True, first.due_at)
    found = await work.app.get(first.id)
    assert (found.payload, found.priority, found.tags, found.replaced) == ("b", 8, ["x"], 1)
    assert (found.key, found.unique, found.due_at) == ("customer:7", "pending", first.due_at)
    await run_until_idle(work.app, within=60)
    assert work.seen == ["b"]


async def test_a_newcomer_postpones_up_to_the_latest_moment(
    work: Work, clock: VirtualClock
) -> None:
    first = await deliver(work.app, 0, after=30, latest=100, on_duplicate="postpone")
    began = clock.now()
    for number in range(1, 6):
        clock.advance(20)
        found = await deliver(work.app, number, after=30, latest=100, on_duplicate="postpone")
        waits = (found.due_at - began).total_seconds()
        assert (found.id, waits) == (first.id, min(20 * number + 30, 100))
    assert not await run_until_idle(work.app, within=0) or work.seen == [5]
    await run_until_idle(work.app, within=30)
    assert work.seen == [5]
    assert (await work.app.get(first.id)).replaced == 5


async def test_while_one_runs_a_newcomer_waits_and_then_at_most_one_runs(live: Work) -> None:
    release = live.waits("a")
    first = await deliver(live.app, "a")
    async with running(live.app):
        await until_set(live.began["a"])
        second = await deliver(live.app, "b", on_duplicate="replace")
        third = await deliver(live.app, "c", on_duplicate="replace")
        assert first.id != second.id == third.id
        found = await live.app.get(second.id)
        assert (found.state, found.next_at) == ("pending", None)
        release.set()
        await live.until(second.id, "completed")
    assert live.seen == ["a", "c"]
    assert await live.states(first.id) == ["completed"]


async def test_one_that_fails_gives_way_to_a_newer_one_that_waits(live: Work) -> None:
    live.fails("a")
    release = live.waits("a")
    first = await deliver(live.app, "a")
    async with running(live.app):
        await until_set(live.began["a"])
        second = await deliver(live.app, "b")
        release.set()
        await live.until(second.id, "completed")
    ended = await live.app.get(first.id)
    assert (ended.state, ended.reason) == ("cancelled", "superseded")
    assert second.id in (ended.error or "")
    by = [each.outcome for each in await live.app.deliveries.history(first.id)]
    assert by == ["retry", "superseded"]
    assert live.seen == ["a", "b"]


async def test_a_dead_letter_is_not_retried_while_another_waits(work: Work) -> None:
    work.dies("a")
    first = await deliver(work.app, "a")
    await run_until_idle(work.app)
    second = await deliver(work.app, "b", after=60)
    with pytest.raises(Conflict, match=f"{second.id} with the same unique key waits"):
        await work.app.dead_letters.retry(first.id)
    with pytest.raises(Conflict, match="same unique key waits"):
        await work.app.deliveries.retry(first.id)
    assert (await work.app.get(first.id)).state == "dead"
    await work.app.cancel(second.id)
    await work.app.dead_letters.retry(first.id)
    assert (await deliver(work.app, "c")).id == first.id
    await run_until_idle(work.app)
    assert work.seen == ["a", "a"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"unique": "pending"}, "unique"),
        ({"unique": "ever", "key": "k"}, "unique"),
        ({"unique": "pending", "key": "k", "stream": "s"}, "unique"),
        ({"unique": "pending", "key": "k", "on_duplicate": "drop"}, "on_duplicate"),
        ({"key": "k", "on_duplicate": "keep"}, "on_duplicate"),
        ({"key": "k", "latest": 5}, "latest"),
        ({"unique": "pending", "key": "k", "latest": 5}, "latest"),
        ({"unique": "pending", "key": "k", "latest": -1, "on_duplicate": "postpone"}, "latest"),
        (
            {"unique": "pending", "key": "k", "latest": 5, "after": 6, "on_duplicate": "postpone"},
            "latest",
        ),
    ],
)
async def test_options_that_do_not_match_are_refused(
    small_app: App, options: dict[str, Any], field: str
) -> None:
    small_app.expect("work")
    with pytest.raises(InvalidInput) as refused:
        await small_app.deliver("work", 1, **options)
    assert refused.value.field == field
    assert ";" in str(refused.value) or field == "latest"
    assert (await small_app.deliveries.page()).items == []
