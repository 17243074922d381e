"""duly.testing: helpers for the tests of users."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.domain.deliveries.outcomes import Completed, Failed
from duly.testing import NotIdle, RecordingTransport, VirtualClock, run_until_idle
from tests.services.conftest import START, record_payloads


async def test_a_virtual_clock_moves_only_on_request() -> None:
    clock = VirtualClock(datetime(2026, 1, 1, 1, tzinfo=UTC))
    assert (clock.now(), clock.monotonic()) == (datetime(2026, 1, 1, 1, tzinfo=UTC), 0.0)
    assert clock.advance(90) == datetime(2026, 1, 1, 1, 1, 30, tzinfo=UTC)
    clock.advance(timedelta(days=1))
    assert clock.monotonic() == 86_490.0
    await clock.sleep(3600)
    assert clock.monotonic() == 86_490.0
    with pytest.raises(duly.InvalidInput, match="by"):
        clock.advance(-1)


async def test_a_virtual_clock_can_be_moved_by_sleeping() -> None:
    clock = VirtualClock(sleeping_moves_it=True)
    await clock.sleep(5)
    await clock.sleep(-5)
    assert clock.monotonic() == 5.0


async def test_run_until_idle_attempts_everything_due_and_no_more(app: App) -> None:
    seen = record_payloads(app)
    assert await run_until_idle(app) == 0
    await app.deliver_many([("work", number) for number in range(250)])
    await app.deliver("work", "later", after=1)
    assert await run_until_idle(app) == 250
    assert sorted(seen) == list(range(250))
    assert await run_until_idle(app) == 0


async def test_retries_are_included_by_moving_the_clock(app: App, clock: VirtualClock) -> None:
    tries: list[timedelta] = []

    @app.handler("work", retry=duly.exponential(base=30, jitter=0, attempts=4))
    async def work(delivery: Delivery[Any]) -> None:
        tries.append(clock.now() - START)
        raise ValueError("no")

    await app.deliver("work")
    assert await run_until_idle(app, within=timedelta(minutes=2)) == 3
    assert tries == [timedelta(seconds=each) for each in (0, 30, 90)]
    assert clock.now() == START + timedelta(seconds=90)
    assert await run_until_idle(app, within=120) == 1
    assert await run_until_idle(app, within=86_400) == 0
    assert clock.now() == START + timedelta(seconds=210)


async def test_only_a_virtual_clock_can_be_moved(sqlite_url: str) -> None:
    async with App(sqlite_url, environment={}) as app:
        seen = record_payloads(app)
        await app.deliver("work", 1)
        assert await run_until_idle(app) == 1
        with pytest.raises(duly.InvalidInput, match="VirtualClock"):
            await run_until_idle(app, within=5)
    assert seen == [1]


async def test_a_handler_that_delivers_to_itself_is_not_idle(small_app: App) -> None:
    @small_app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        await small_app.deliver("work")

    await small_app.deliver("work")
    with pytest.raises(NotIdle, match="not idle after 20 attempts"):
        await run_until_idle(small_app, most=20)


async def test_a_recording_transport_records_its_deliveries(app: App) -> None:
    app.expect("mail")
    transport = RecordingTransport("mail")
    accepted = await app.deliver("mail", {"to": "ann"}, key="k", at=START - timedelta(seconds=9))
    assert await run_until_idle(app, transport=transport) == 1
    (recorded,) = transport.recorded
    assert (recorded.id, recorded.target, recorded.payload) == (
        accepted.id,
        "mail",
        b'{"to":"ann"}',
    )
    assert (recorded.attempt, recorded.key) == (1, "k")
    assert (recorded.due_at, recorded.started_at) == (START - timedelta(seconds=9), START)
    assert (await app.get(accepted.id)).state == "completed"


async def test_a_recording_transport_returns_the_given_answers(small_app: App) -> None:
    small_app.expect("mail")
    busy = Failed(duly.Reason.TRANSPORT_UNAVAILABLE, "busy", after=3)
    transport = RecordingTransport(
        "mail",
        answers=[busy, lambda recorded: busy if recorded.attempt < 4 else Completed()],
        plan=duly.exponential(base=100),
    )
    accepted = await small_app.deliver("mail")
    assert await run_until_idle(small_app, transport=transport, within=60) == 4
    assert [each.attempt for each in transport.recorded] == [1, 2, 3, 4]
    assert transport.recorded[3].started_at == START + timedelta(seconds=9)
    assert (await small_app.get(accepted.id)).state == "completed"


async def test_deliveries_of_a_dead_worker_are_reclaimed_first(app: App) -> None:
    seen = record_payloads(app)
    await app.deliver("work", 1)
    engine = app.engine(stepped=True)
    await engine.prepare()
    await engine.worker.dispatcher.tick()
    await engine.worker.runner.drain(0)
    seen.clear()
    app.clock.advance(60)  # type: ignore[attr-defined]
    assert await run_until_idle(app) == 1
    assert seen == [1]


async def test_the_lease_may_expire_between_two_runs(app: App, clock: VirtualClock) -> None:
    seen = record_payloads(app)
    await app.deliver("work", 1)
    assert await run_until_idle(app) == 1
    clock.advance(timedelta(days=400))
    await app.deliver("work", 2)
    assert await run_until_idle(app, within=timedelta(days=1)) == 1
    assert seen == [1, 2]


def test_a_clock_can_be_set_without_time_passing() -> None:
    clock = VirtualClock()
    begin = clock.now()
    clock.advance(60)
    assert clock.step(-3600) == begin - timedelta(minutes=59)
    assert clock.step(timedelta(days=1)) == clock.now() == begin + timedelta(hours=23, minutes=1)
    assert clock.monotonic() == 60
