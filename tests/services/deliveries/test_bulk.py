"""Many pending deliveries are cancelled or retried by a filter, and no others."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App
from duly.errors import InvalidInput
from duly.records.dead_letter import BulkProgress
from duly.services.deliveries import bulk
from duly.system import SystemChance
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import record_payloads

pytestmark = pytest.mark.requirement("F11")
HOUR = timedelta(hours=1)


async def last(moves: AsyncIterator[BulkProgress]) -> BulkProgress:
    found = [each async for each in moves]
    assert [each.done for each in found] == sorted(each.done for each in found)
    return found[-1]


async def test_all_that_match_are_cancelled_and_nothing_else(app: App) -> None:
    seen = record_payloads(app)
    for n in range(120):
        await app.deliver("work", n, after=HOUR, tags=["old"])
    kept = await app.deliver("work", "kept", tags=["new"])
    assert await app.deliveries.count(tag="old") == 120
    progress = await last(app.deliveries.cancel_all(tag="old"))
    assert (progress.done, progress.total) == (120, 120)
    await run_until_idle(app)
    assert seen == ["kept"]
    assert (await app.get(kept.id)).state == "completed"
    assert await app.deliveries.count(tag="old") == 0


async def test_only_those_that_wait_are_made_due_now(app: App) -> None:
    seen = record_payloads(app)
    app.expect("idle")
    await app.deliver("work", "later", after=HOUR)
    await app.deliver("work", "now")
    await app.deliver("idle", "left alone", after=HOUR)
    assert await app.deliveries.count(target="work") == 2
    assert await app.deliveries.count(target="work", waiting=True) == 1
    assert (await last(app.deliveries.retry_all(target="work"))).done == 1
    await run_until_idle(app)
    assert sorted(seen) == ["later", "now"]


async def test_a_stream_stays_in_order_when_some_of_it_are_cancelled(app: App) -> None:
    seen = record_payloads(app)
    for n in range(6):
        await app.deliver("work", n, stream="s", tags=["odd"] if n % 2 else [])
    assert (await last(app.deliveries.cancel_all(tag="odd"))).done == 3
    await run_until_idle(app)
    assert seen == [0, 2, 4]


async def test_only_pending_ones_can_be_meant(app: App) -> None:
    with pytest.raises(InvalidInput, match="state: only pending"):
        await app.deliveries.count(state="dead")


async def test_deliveries_accepted_after_until_are_left_alone(
    database_url: str, clock: VirtualClock
) -> None:
    # Lists go by the moment in the id.
    chance = SystemChance(lambda: int(clock.now().timestamp() * 1000))
    async with App(database_url, clock=clock, chance=chance, environment={}) as app:
        app.expect("work")
        old, until = await app.deliver("work", after=HOUR), clock.now()
        clock.advance(1)
        new = await app.deliver("work", after=HOUR)
        clock.advance(1)
        progress = await last(app.deliveries.cancel_all(until=until))
        assert (progress.done, progress.until) == (1, until)
        assert (await app.get(old.id)).state == "cancelled"
        assert (await app.get(new.id)).state == "pending"


async def test_one_that_fails_again_is_not_retried_when_the_operation_is_continued(
    app: App, clock: VirtualClock
) -> None:
    tried: list[Any] = []

    @app.handler("fails", retry=duly.delays(600, 600, 600))
    async def fails(delivery: Any) -> None:
        tried.append(delivery.payload)
        raise ValueError("no")

    await app.deliver("fails", 1)
    await run_until_idle(app)
    assert tried == [1]
    clock.advance(1)
    first = await last(app.deliveries.retry_all())
    clock.advance(1)
    await run_until_idle(app)
    assert (first.done, tried) == (1, [1, 1])
    assert await app.deliveries.count(waiting=True) == 1
    assert await app.deliveries.count(waiting=True, until=first.until) == 0
    assert [each async for each in app.deliveries.retry_all(until=first.until)] == []


async def test_a_count_that_reached_its_limit_is_never_taken_for_the_end(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "BATCH", 2)
    monkeypatch.setattr(bulk, "COUNTED_UP_TO", 2)
    app.expect("work")
    for _ in range(5):
        await app.deliver("work", after=HOUR)
    found = [each async for each in app.deliveries.cancel_all()]
    assert [each.done for each in found] == [2, 4, 5]
    assert all(each.done < each.total for each in found)
