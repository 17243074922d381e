"""duly.App as users have it: delivering, reading, changing."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import START, record_payloads


@pytest.mark.requirement("D1")
async def test_a_delivery_is_stored_and_then_executed(app: App) -> None:
    seen = record_payloads(app)
    accepted = await app.deliver("work", {"team": 7})
    delivery = await app.get(accepted.id)
    assert (delivery.state, delivery.target, bytes(delivery.payload_json)) == (
        "pending",
        "work",
        b'{"team":7}',
    )
    assert await run_until_idle(app) == 1
    assert seen == [{"team": 7}]
    done = await app.get(accepted.id)
    assert (done.state, done.attempt, done.finished_at) == ("completed", 1, START)
    assert [each.outcome for each in await app.attempts(accepted.id)] == ["completed"]


async def test_a_delivery_that_is_due_later_waits(app: App, clock: VirtualClock) -> None:
    seen = record_payloads(app)
    oslo = timezone(timedelta(hours=2))
    at = await app.deliver("work", "at", at=(START + timedelta(minutes=5)).astimezone(oslo))
    after = await app.deliver("work", "after", after=timedelta(minutes=2))
    seconds = await app.deliver("work", "seconds", after=60)
    assert at.due_at == START + timedelta(minutes=5)
    assert after.due_at == START + timedelta(minutes=2)
    assert seconds.due_at == START + timedelta(minutes=1)
    assert await run_until_idle(app) == 0
    clock.advance(119)
    assert await run_until_idle(app) == 1
    assert await run_until_idle(app, within=timedelta(hours=1)) == 2
    assert seen == ["seconds", "after", "at"]
    assert clock.now() == START + timedelta(minutes=5)


async def test_the_same_key_is_the_same_delivery(app: App) -> None:
    seen = record_payloads(app)
    first = await app.deliver("work", 1, key="once")
    second = await app.deliver("work", 1, key="once")
    assert (second.id, second.known, first.known) == (first.id, True, False)
    await run_until_idle(app)
    assert (await app.deliver("work", 1, key="once")).id == first.id
    assert await run_until_idle(app) == 0
    with pytest.raises(duly.Conflict, match="'once' already belongs to delivery"):
        await app.deliver("work", 2, key="once")
    assert seen == [1]


async def test_many_are_delivered_together_from_any_iterable(app: App) -> None:
    seen = record_payloads(app)

    def items() -> Iterator[Any]:
        yield ("work", 1)
        yield {"target": "work", "payload": 2, "key": "two", "priority": 9, "tags": ["t"]}
        yield {"target": "work", "payload": 3, "after": 60}

    accepted = await app.deliver_many(items())
    assert [(await app.get(each.id)).due_at for each in accepted] == [
        START,
        START,
        START + timedelta(seconds=60),
    ]
    (tagged,) = await app.list(tag="t")
    assert (tagged.id, tagged.key, tagged.priority) == (accepted[1].id, "two", 9)
    assert await run_until_idle(app) == 2
    assert sorted(seen) == [1, 2]


async def test_many_are_delivered_all_or_none(app: App) -> None:
    record_payloads(app)
    await app.deliver("work", 1, key="taken")
    bad: list[Any] = [
        {"target": "work", "payload": 2, "key": "taken"},
        ("work", object()),
        ("nowhere", 1),
        {"target": "work", "at": datetime(2026, 1, 1)},  # noqa: DTZ001 - on purpose
        {"target": "work", "colour": "red"},
        ("work", 1, 2),
        7,
    ]
    for item in bad:
        with pytest.raises((duly.Conflict, duly.InvalidInput)):
            await app.deliver_many([*[("work", 0)] * 2500, item])
        assert len(await app.list()) == 1


async def test_more_than_one_chunk_is_delivered(small_app: App) -> None:
    seen = record_payloads(small_app)
    accepted = await small_app.deliver_many(("work", number) for number in range(4500))
    assert len({each.id for each in accepted}) == 4500
    assert await run_until_idle(small_app) == 4500
    assert sorted(seen) == list(range(4500))


async def test_a_pending_delivery_can_be_cancelled(app: App) -> None:
    seen = record_payloads(app)
    accepted = await app.deliver("work", after=60)
    assert (await app.cancel(accepted.id)).state == "cancelled"
    assert await run_until_idle(app, within=3600) == 0
    assert seen == []
    await app.retry((await app.deliver("work", key="done", after=60)).id)
    assert await run_until_idle(app) == 1
    done = (await app.deliver("work", key="done")).id
    with pytest.raises(duly.Conflict, match="only a pending or running delivery can be cancelled"):
        await app.cancel(done)


async def test_a_dead_letter_can_be_retried_with_all_its_attempts(app: App) -> None:
    broken = True
    tries: list[int] = []

    @app.handler("work", retry=duly.delays(1))
    async def work(delivery: Delivery[Any]) -> None:
        tries.append(delivery.attempt)
        if broken:
            raise ValueError("broken")

    accepted = await app.deliver("work")
    await run_until_idle(app, within=60)
    assert (await app.get(accepted.id)).state == "dead"
    assert [each.id for each in await app.list(state="dead")] == [accepted.id]
    broken = False
    assert (await app.retry(accepted.id)).state == "pending"
    assert await run_until_idle(app) == 1
    assert tries == [1, 2, 1]
    outcomes = [each.outcome for each in await app.deliveries.history(accepted.id)]
    assert sorted(outcomes) == ["completed", "dead", "retried", "retry"]
    with pytest.raises(duly.Conflict, match="completed"):
        await app.retry(accepted.id)


async def test_a_waiting_retry_can_be_run_now(app: App) -> None:
    tries = []

    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        tries.append(delivery.attempt)
        if delivery.attempt == 1:
            raise duly.Retry(after=timedelta(days=3))

    accepted = await app.deliver("work")
    assert await run_until_idle(app) == 1
    await app.retry(accepted.id)
    assert await run_until_idle(app) == 1
    assert tries == [1, 2]


async def test_a_list_is_filtered_and_paged(app: App) -> None:
    record_payloads(app)
    ids = [(await app.deliver("work", number, tags=["all"])).id for number in range(5)]
    await app.cancel(ids[0])
    page = await app.list(limit=2)
    assert [each.id for each in page] == ids[:2:-1]
    rest = await app.list(before=page[-1].id, tag="all", target="work", state=duly.State.PENDING)
    assert [each.id for each in rest] == [ids[2], ids[1]]
    assert await app.list(key="none") == []


async def test_an_unknown_delivery_is_not_found(app: App) -> None:
    unknown = "018f0000-0000-7000-8000-000000000000"
    for call in (app.get, app.cancel, app.retry, app.attempts):
        with pytest.raises(duly.NotFound, match=unknown):
            await call(unknown)
        with pytest.raises(duly.InvalidInput, match="id: 'x' is no delivery id"):
            await call("x")


@pytest.mark.requirement("D9")
async def test_a_handler_gets_all_fields_of_its_delivery(app: App, clock: VirtualClock) -> None:
    received: list[Any] = []

    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        received.append(
            (
                delivery.id,
                delivery.attempt,
                delivery.target,
                delivery.key,
                delivery.due_at,
                delivery.late_by,
            )
        )

    accepted = await app.deliver("work", key="k", at=START - timedelta(seconds=5))
    await run_until_idle(app)
    assert received == [
        (accepted.id, 1, "work", "k", START - timedelta(seconds=5), timedelta(seconds=5))
    ]


async def test_a_handler_may_deliver(app: App) -> None:
    seen = record_payloads(app, "next")

    @app.handler("first")
    async def first(delivery: Delivery[int]) -> None:
        await app.deliver("next", delivery.payload + 1, key=delivery.id)

    await app.deliver("first", 1)
    assert await run_until_idle(app) == 2
    assert seen == [2]


async def test_a_name_can_be_registered_once(small_app: App) -> None:
    record_payloads(small_app)
    with pytest.raises(duly.InvalidInput, match="'work' is registered already"):
        record_payloads(small_app)


async def test_namespaces_are_separate(database_url: str, clock: VirtualClock) -> None:
    one = App(database_url, clock=clock, environment={}, namespace="one")
    two = App(database_url, clock=clock, environment={}, namespace="two")
    seen_one, seen_two = record_payloads(one), record_payloads(two)
    async with one, two:
        accepted = await one.deliver("work", 1, key="k")
        assert not (await two.deliver("work", 2, key="k")).known
        with pytest.raises(duly.NotFound):
            await two.get(accepted.id)
        assert await run_until_idle(one) == 1
    assert (seen_one, seen_two) == ([1], [])


def test_a_clock_without_a_time_zone_is_refused() -> None:
    with pytest.raises(duly.InvalidInput, match="start"):
        VirtualClock(datetime(2026, 1, 1))  # noqa: DTZ001 - on purpose
    assert VirtualClock(datetime(2026, 1, 1, tzinfo=UTC)).now().tzinfo is UTC
