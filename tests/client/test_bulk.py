"""Bulk operations, counts and series of duly.Client against a real server."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly.errors import InvalidInput
from duly.records.dead_letter import BulkProgress
from tests.client.servers import answering, json, script

pytestmark = pytest.mark.requirement("F11", "S5", "S6")


async def done(moves: AsyncIterator[BulkProgress]) -> int:
    found = [each async for each in moves]
    assert all(each.done <= each.total for each in found)
    return found[-1].done if found else 0


async def test_pending_deliveries_are_counted_cancelled_and_retried(url: str) -> None:
    async with duly.Client(url) as client:
        for tag in ("gone", "gone", "soon", "kept"):
            await client.deliver("log", tag, after=3600, tags=[tag])
        assert (await client.deliveries.counts(tag="gone")).states["pending"] == 2
        assert await client.deliveries.count(tag="gone") == 2
        assert await done(client.deliveries.cancel_all(tag="gone")) == 2
        assert await client.deliveries.count(tag="gone") == 0
        assert (await client.deliveries.counts(tag="gone")).states["cancelled"] == 2
        assert await done(client.deliveries.retry_all(tag="soon")) == 1
        assert await client.deliveries.count(tag="soon", waiting=True) == 0
        assert [each.state for each in await client.list(tag="kept")] == ["pending"]


async def test_schedules_are_found_paused_and_resumed_by_part_of_their_name(url: str) -> None:
    async with duly.Client(url) as client:
        for name in ("hourly-a", "hourly-b", "weekly"):
            await client.schedule(name, duly.every("1h"), "log")
        found = await client.schedules.list(text="HOURLY")
        assert [each.name for each in found] == ["hourly-a", "hourly-b"]
        assert await client.schedules.count(text="hourly") == 2
        assert await done(client.schedules.pause_all(text="hourly", reason="repair")) == 2
        assert (await client.schedules.get("hourly-b")).pause_reason == "repair"
        assert (await client.schedules.get("weekly")).state == "active"
        assert await client.schedules.count(paused=True) == 2
        assert await done(client.schedules.resume_all(names=["hourly-a", "unknown"])) == 1
        assert await done(client.schedules.resume_all()) == 1


async def test_a_series_is_of_one_target_or_one_schedule(url: str) -> None:
    async with duly.Client(url) as client:
        series = await client.stats.series(600, target="log")
        assert len(series.points) >= 10
        assert (await client.stats.series(600, schedule="none")).points
        with pytest.raises(InvalidInput, match="schedule: give it or target"):
            await client.stats.series(600, target="log", schedule="none")


@pytest.mark.parametrize("field", ["tag", "stream", "schedule", "text", "id"])
async def test_a_bad_filter_is_refused_by_its_field(url: str, field: str) -> None:
    async with duly.Client(url) as client:
        with pytest.raises(InvalidInput) as refused:
            await client.deliveries.count(**{field: ""})  # type: ignore[arg-type]
    assert refused.value.field == field


async def test_an_operation_of_several_calls_keeps_its_first_until_and_its_total() -> None:
    first, last = "2026-11-17T09:00:00Z", "2026-11-17T09:00:01Z"
    body = '{"matching": %d, "moved": %d, "until": "%s", "finished": %s}'
    answers = (
        json((body % (5, 3, first, "false")).encode()),
        json((body % (2, 2, last, "true")).encode()),
    )
    async with answering(script(*answers)) as received, duly.Client(received.url) as client:
        found = [each async for each in client.deliveries.cancel_all(tag="a")]
    assert [(each.done, each.total) for each in found] == [(3, 5), (5, 5)]
    assert first.encode() in received.requests[1]


@pytest.mark.requirement("P7")
async def test_a_unique_key_is_the_same_through_a_server(url: str) -> None:
    async with duly.Client(url) as client:
        unique: Any = {"key": "k", "unique": "pending", "after": 3600}
        first = await client.deliver("log", 1, **unique)
        later: Any = {"on_duplicate": "postpone", "latest": timedelta(hours=2)}
        second = await client.deliver("log", 2, **unique | later)
        (third,) = await client.deliver_many(
            [{"target": "log", "payload": 3, **unique, "on_duplicate": "replace"}]
        )
        assert first.id == second.id == third.id
        assert (first.known, second.known, third.known) == (False, True, True)
        found = await client.get(first.id)
        assert (found.payload, found.unique, found.replaced) == (3, "pending", 2)
        with pytest.raises(InvalidInput, match="latest: only on_duplicate"):
            await client.deliver("log", 2, **unique, latest=5000)
        with pytest.raises(InvalidInput, match="on_duplicate: 'drop' is not known"):
            await client.deliver("log", 2, **unique, on_duplicate="drop")
