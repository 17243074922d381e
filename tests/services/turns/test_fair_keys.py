"""Fair keys: within one target and priority, keys take turns."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

import duly
from duly import App
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import record_payloads
from tests.services.work import Work, running

FLOOD = 300


def flood() -> list[dict[str, object]]:
    return [{"target": "work", "payload": "flooded", "fair_key": "flooded"} for _ in range(FLOOD)]


@pytest.mark.requirement("P10")
async def test_a_flooded_key_does_not_hold_up_the_others(app: App) -> None:
    seen = record_payloads(app)
    await app.deliver_many(flood())
    for number in range(3):
        await app.deliver("work", number, fair_key=f"small-{number}")
    assert await run_until_idle(app) == FLOOD + 3
    # A claim takes at most half of the slots, and the first one takes from every key.
    first = app.settings.concurrency
    assert {0, 1, 2} <= set(seen[:first])


@pytest.mark.requirement("P10")
async def test_what_falls_due_during_a_flood_is_not_behind_it(
    app: App, clock: VirtualClock
) -> None:
    seen = record_payloads(app)
    await app.deliver("work", "scheduled", fair_key="small", after=60)
    clock.advance(61)
    await app.deliver_many(flood())
    await run_until_idle(app)
    assert "scheduled" in seen[: app.settings.concurrency]


@pytest.mark.requirement("P10")
async def test_a_real_worker_runs_all_keys_and_those_without(live: Work) -> None:
    items = [
        {"target": "work", "payload": number, "fair_key": f"key-{number % 7}"}
        if number % 3
        else {"target": "work", "payload": number}
        for number in range(200)
    ]
    async with running(live.app):
        accepted = await live.app.deliver_many(items)
        for each in accepted:
            await live.app.deliveries.wait(each.id, timeout=30)
    assert sorted(live.seen) == list(range(200))


@pytest.mark.requirement("P10")
async def test_the_key_is_shown(app: App) -> None:
    record_payloads(app)
    accepted = await app.deliver("work", 1, fair_key="customer:7")
    delivery = await app.get(accepted.id)
    assert (delivery.fair_key, delivery.limit_key) == ("customer:7", None)


@pytest.mark.requirement("P10")
async def test_a_retry_keeps_its_key(app: App, clock: VirtualClock) -> None:
    tries = 0

    @app.handler("flaky", retry=duly.exponential(base=5, attempts=3))
    async def flaky(_: duly.Delivery[object]) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise duly.Retry("not yet")

    accepted = await app.deliver("flaky", 1, fair_key="customer:7")
    await run_until_idle(app, within=timedelta(hours=1))
    assert tries == 2
    assert (await app.get(accepted.id)).state == "completed"


@pytest.mark.requirement("P10")
@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"fair_key": ""}, "fair_key"),
        ({"fair_key": 7}, "fair_key"),
        ({"limit_key": "x" * 2000}, "limit_key"),
        ({"fair_key": "a", "limit_key": "b"}, "fair_key"),
        ({"fair_key": "a", "stream": "b"}, "fair_key"),
        ({"limit_key": "a", "stream": "b"}, "limit_key"),
    ],
)
async def test_bad_keys_are_refused(app: App, options: dict[str, str], field: str) -> None:
    record_payloads(app)
    with pytest.raises(duly.InvalidInput) as raised:
        await app.deliver("work", 1, **options)  # type: ignore[arg-type]
    assert raised.value.field == field
    assert await app.deliveries.list() == []


@pytest.mark.requirement("P10")
async def test_a_key_given_in_a_callers_transaction_is_kept(postgres_url: str) -> None:
    async with App(postgres_url, environment={}) as app:
        seen = record_payloads(app)
        connection = await asyncpg.connect(postgres_url, timeout=30)
        try:
            async with connection.transaction():
                accepted = await app.deliver("work", 1, fair_key="a", connection=connection)
        finally:
            await connection.close()
        assert (await app.get(accepted.id)).fair_key == "a"
        assert await run_until_idle(app) == 1
        assert seen == [1]
