"""Minutes: what happened is written beside the deliveries, once a second and at the end."""

from datetime import timedelta
from typing import Any

import pytest

import duly
from duly.records.stats import Point, Series
from tests.engine.house import House

pytestmark = pytest.mark.requirement("S3")


def counts(series: Series, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(getattr(each, name) for name in names) for each in series.points]


async def test_each_minute_has_what_happened_in_it(any_house: House) -> None:
    app = any_house.app(grace=60)

    @app.handler("work")
    async def work(delivery: duly.Delivery[Any]) -> None:
        any_house.clock.advance(2)
        if delivery.payload == "bad":
            raise ValueError("no")

    life = await any_house.born(app)
    await app.deliver("work", "good")
    await app.deliver("work", "bad", retry=duly.no_retry)
    await life.engine.worker.step()
    await app.rollup_writer.tick()
    any_house.clock.advance(60)
    await app.deliver("work", "good", at=any_house.clock.now() - timedelta(seconds=90))
    await life.engine.worker.step()
    series = await app.series(since=120)
    names = ("accepted", "completed", "failed", "dead", "on_time", "late")
    assert counts(series, *names)[-2:] == [(2, 1, 1, 1, 2, 0), (1, 1, 0, 0, 0, 1)]
    last: Point = series.points[-1]
    assert (last.run_seconds, last.lateness_seconds) == (2.0, 90.0)
    (whole,) = (await app.series(since=60, step=3600)).points
    assert (whole.accepted, whole.completed) == (3, 2)


async def test_workers_add_up_and_namespaces_do_not(any_house: House) -> None:
    for namespace in ("one", "one", "two"):
        app = any_house.app(namespace=namespace)
        app.expect("work")
        await app.open()
        await app.deliver("work")
        await app.close()
    for namespace, many in (("one", 2), ("two", 1), ("three", 0)):
        app = any_house.app(namespace=namespace)
        await app.open()
        assert counts(await app.series(since=60), "accepted")[-1] == (many,)


async def test_what_a_transaction_of_a_handler_completed_counts_too(any_house: House) -> None:
    app = any_house.app()

    @app.handler("work")
    async def work(delivery: duly.Delivery[Any]) -> None:
        await delivery.transaction.fetch("select 1")

    life = await any_house.born(app)
    await app.deliver("work")
    await life.engine.worker.step()
    await app.rollup_writer.tick()
    assert counts(await app.series(since=60), "completed", "on_time")[-1] == (1, 1)


async def test_a_write_that_failed_is_made_up_for(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = house.app()
    app.expect("work")
    await app.open()
    await app.deliver_many([("work", 1), ("work", 2)])

    async def away(*_: Any) -> None:
        raise duly.StoreUnavailable("gone")

    with monkeypatch.context() as broken:
        broken.setattr(app.store.rollups, "add", away)
        with pytest.raises(duly.StoreUnavailable):
            await app.rollup_writer.tick()
    assert counts(await app.series(since=60), "accepted")[-1] == (2,)


async def test_minutes_are_forgotten_after_35_days(any_house: House) -> None:
    app = any_house.app()
    app.expect("work")
    await app.open()
    await app.deliver("work")
    await app.rollup_writer.tick()
    before = any_house.clock.now()
    any_house.clock.advance(timedelta(days=34))
    await app.store.maintenance.prune(timedelta(days=1), timedelta(days=1), _NONE, 10)
    assert sum(each.accepted for each in (await _then(app, before)).points) == 1
    any_house.clock.advance(timedelta(days=2))
    await app.store.maintenance.prune(timedelta(days=1), timedelta(days=1), _NONE, 10)
    assert sum(each.accepted for each in (await _then(app, before)).points) == 0


_NONE = "00000000-0000-0000-0000-000000000000"


async def _then(app: duly.App, at: Any) -> Series:
    return await app.series(at - timedelta(minutes=5), at + timedelta(minutes=5))
