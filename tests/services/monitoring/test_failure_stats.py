"""Failure statistics: counted correctly, since a given time, and within their limits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.domain.deliveries.identifiers import token
from duly.records.stats import FailureStats, LikelyPoison, OldestWaiting, Poison, Retries
from duly.stores.store import SqlStore
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import START
from tests.stores.store_probe import StoreProbe

HOUR = 3600


def add_handler(app: App) -> None:
    """A handler whose payload has the attempt at which it succeeds, and the reason until then."""

    @app.handler("work", retry=duly.delays(60, 120, 240))
    async def work(delivery: Delivery[Any]) -> None:
        if delivery.attempt < delivery.payload["until"]:
            raise duly.Fail("not yet", reason=delivery.payload.get("reason", "handler_exception"))


async def deliver(app: App, until: int, **more: Any) -> str:
    options = {name: more.pop(name) for name in ("stream", "at") if name in more}
    return (await app.deliver("work", {"until": until, **more}, **options)).id


@pytest.mark.requirement("F11")
async def test_an_empty_store_has_stats(app: App) -> None:
    found = await app.stats()
    day = timedelta(days=1)
    assert found == FailureStats(since=START - day, at=START, counted_up_to=10_000)


@pytest.mark.requirement("F11")
async def test_states_attempts_and_reasons_are_counted(app: App) -> None:
    add_handler(app)
    for until in (1, 1, 2, 9):
        await deliver(app, until)
    await deliver(app, 9, reason="dependency_failure")
    await app.cancel((await app.deliver("work", at=START + timedelta(days=9))).id)
    await run_until_idle(app, within=HOUR)
    await app.deliver("work", at=START + timedelta(days=9))
    found = await app.stats()
    assert found.states == {"cancelled": 1, "completed": 3, "dead": 2, "pending": 1}
    assert found.attempts == {1: 2, 2: 1, 4: 2}
    assert found.reasons == {"dependency_failure": 4, "handler_exception": 5}
    assert (found.retries, found.capped) == (Retries(), [])


@pytest.mark.requirement("F11")
async def test_earlier_deliveries_are_not_counted(app: App, clock: VirtualClock) -> None:
    add_handler(app)
    await deliver(app, 9)
    await run_until_idle(app, within=HOUR)
    clock.advance(10 * HOUR)
    await deliver(app, 2)
    await run_until_idle(app, within=HOUR)
    for since in (timedelta(hours=5), 5 * HOUR, clock.now() - timedelta(hours=5)):
        found = await app.stats(since)
        assert (found.states, found.attempts) == ({"completed": 1}, {2: 1})
        assert found.reasons == {"handler_exception": 1}
    assert (await app.stats()).states == {"completed": 1, "dead": 1}


@pytest.mark.requirement("F11")
async def test_waiting_retries_have_a_first_and_a_last_time(app: App, clock: VirtualClock) -> None:
    add_handler(app)
    late, retried, done = [await deliver(app, until) for until in (9, 9, 2)]
    await run_until_idle(app)
    await run_until_idle(app, within=61)
    now = clock.now()
    assert (await app.stats()).retries == Retries(2, *[now + timedelta(seconds=120)] * 2)
    await app.retry(retried)
    minute = timedelta(seconds=60)
    clock.advance(minute)
    # A delivery that is retried now is due; it still waits for its attempt.
    assert (await app.stats()).retries == Retries(2, now, now + 2 * minute)
    assert (await app.get(done)).state == "completed"
    await app.cancel(late)
    assert (await app.stats()).retries == Retries(1, now, now)


@pytest.mark.requirement("F11")
async def test_a_delivery_whose_worker_died_may_be_poison(app: App, clock: VirtualClock) -> None:
    probe = StoreProbe(app.store, clock)  # type: ignore[arg-type]
    add_handler(app)
    await deliver(app, 1)
    suspect = await deliver(app, 1)
    held = token(await app.store.workers.register("dies", 1.0, 1, []), 1)
    await probe.sql(
        f"update duly.agenda set token = {held} where delivery = {probe.agenda_id(suspect)}"
    )
    await probe.record_claim(held)
    clock.advance(60)
    engine = app.engine(stepped=True)
    await engine.prepare()
    try:
        found = await app.stats()
    finally:
        await engine.stop()
    assert found.poison == Poison(1, [LikelyPoison(suspect, "work", 1, 0)])
    await run_until_idle(app)
    assert (await app.stats()).poison == Poison()


@pytest.mark.requirement("F11")
async def test_stopped_streams_and_the_oldest_waiting_delivery(app: App) -> None:
    add_handler(app)
    for stream in ("one", "two"):
        await deliver(app, 9, stream=stream)
    await deliver(app, 1, stream="three")
    await app.streams.pause("three", reason="maintenance")
    await run_until_idle(app, within=HOUR)
    oldest = await deliver(app, 1, at=START - timedelta(hours=2))
    await deliver(app, 1, at=START - timedelta(hours=1))
    found = await app.stats()
    assert (found.blocked_streams, found.paused_streams) == (2, 1)
    assert found.oldest_waiting == OldestWaiting(oldest, "work", START - timedelta(hours=2))


@pytest.mark.requirement("F11", "D5")
async def test_a_count_that_reaches_its_limit_is_marked(app: App) -> None:
    add_handler(app)
    for _ in range(3):
        await deliver(app, 9)
        await deliver(app, 9, stream=f"stream {_}")
    await run_until_idle(app)
    assert isinstance(app.store, SqlStore)
    enough = await app.store.failure_stats.stats(HOUR, most=7)
    assert (enough.capped, enough.states, enough.retries.count) == ([], {"pending": 6}, 6)
    few = await app.store.failure_stats.stats(HOUR, most=4)
    assert few.capped == ["recent", "reasons", "retries"]
    assert (few.states, few.reasons) == ({"pending": 4}, {"handler_exception": 4})
    assert few.retries.count == 4


@pytest.mark.requirement("F11")
async def test_namespaces_have_their_own_stats(app: App, database_url: str) -> None:
    add_handler(app)
    await deliver(app, 9)
    await deliver(app, 9, stream="one")
    await run_until_idle(app, within=HOUR)
    clock = VirtualClock(app.clock.now())
    async with App(database_url, clock=clock, namespace="other", environment={}) as other:
        found = await other.stats()
    assert found == FailureStats(since=found.since, at=clock.now(), counted_up_to=10_000)


@pytest.mark.requirement("F11")
@pytest.mark.parametrize("since", [-1, "1h", START + timedelta(days=1), START.replace(tzinfo=None)])
async def test_an_invalid_since_is_refused(small_app: App, since: Any) -> None:
    with pytest.raises(duly.InvalidInput, match="since: "):
        await small_app.stats(since)
