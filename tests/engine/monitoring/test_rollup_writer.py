"""Rollups: counts by minute, written once a second and at the end."""

from datetime import timedelta
from typing import Any

import pytest

import duly
from duly.records.stats import Point, Series
from tests.engine.cluster import Cluster
from tests.stores.store_probe import StoreProbe

pytestmark = pytest.mark.requirement("S3")


def counts(series: Series, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(getattr(each, name) for name in names) for each in series.points]


async def test_each_minute_has_its_own_counts(any_cluster: Cluster) -> None:
    app = any_cluster.app(grace=60)

    @app.handler("work")
    async def work(delivery: duly.Delivery[Any]) -> None:
        any_cluster.clock.advance(2)
        if delivery.payload == "bad":
            raise ValueError("no")

    process = await any_cluster.start_worker(app)
    await app.deliver("work", "good")
    await app.deliver("work", "bad", retry=duly.no_retry)
    await process.engine.worker.step()
    await app.rollup_writer.tick()
    any_cluster.clock.advance(60)
    await app.deliver("work", "good", at=any_cluster.clock.now() - timedelta(seconds=90))
    await process.engine.worker.step()
    series = await app.series(since=120)
    names = ("accepted", "completed", "failed", "dead", "on_time", "late")
    assert counts(series, *names)[-2:] == [(2, 1, 1, 1, 2, 0), (1, 1, 0, 0, 0, 1)]
    last: Point = series.points[-1]
    assert (last.run_seconds, last.lateness_seconds) == (2.0, 90.0)
    (whole,) = (await app.series(since=60, step=3600)).points
    assert (whole.accepted, whole.completed) == (3, 2)


async def test_each_minute_has_percentiles_of_all_its_attempts(any_cluster: Cluster) -> None:
    app = any_cluster.app()

    @app.handler("work")
    async def work(delivery: duly.Delivery[Any]) -> None:
        any_cluster.clock.advance(delivery.payload)

    process = await any_cluster.start_worker(app)
    for seconds in (1, 1, 1, 8):
        due_at = any_cluster.clock.now() - timedelta(seconds=50)
        await app.deliver("work", seconds, at=due_at)
        await process.engine.worker.step()
        await app.rollup_writer.tick()
    empty, last = (await app.series(since=60)).points[-2:]
    assert (empty.lateness, empty.pickup, empty.run) == (None, None, None)
    assert last.lateness is not None
    assert last.run is not None
    assert last.pickup is not None
    assert 30 < last.lateness.p50 < last.lateness.p99 <= 60
    assert 0.5 < last.run.p50 <= 1
    assert 5 < last.run.p95 < last.run.p99 <= 10


async def test_percentiles_of_other_namespaces_are_theirs(any_cluster: Cluster) -> None:
    app = any_cluster.app()

    @app.handler("work")
    async def work(_: duly.Delivery[Any]) -> None:
        any_cluster.clock.advance(8)

    process = await any_cluster.start_worker(app)
    await app.within("two").deliver("work")
    await process.engine.worker.step()
    await app.rollup_writer.tick()
    mine, theirs = await app.series(since=60), await app.within("two").series(since=60)
    assert [each.run for each in mine.points] == [None] * len(mine.points)
    assert [each.run.p50 for each in theirs.points if each.run is not None] == [7.5]


async def test_minutes_of_older_versions_have_counts_without_percentiles(
    any_cluster: Cluster,
) -> None:
    app = any_cluster.app()
    app.expect("work")
    await app.open()
    await app.deliver("work")
    await app.rollup_writer.tick()
    old = "update duly.rollups set lateness = null, pickup = null, run = null"
    await StoreProbe(app.store, any_cluster.clock).sql(old)
    await app.deliver("work")
    last = (await app.series(since=60)).points[-1]
    assert (last.accepted, last.lateness) == (2, None)


async def test_workers_add_up_and_namespaces_do_not(any_cluster: Cluster) -> None:
    for namespace in ("one", "one", "two"):
        app = any_cluster.app(namespace=namespace)
        app.expect("work")
        await app.open()
        await app.deliver("work")
        await app.close()
    for namespace, many in (("one", 2), ("two", 1), ("three", 0)):
        app = any_cluster.app(namespace=namespace)
        await app.open()
        assert counts(await app.series(since=60), "accepted")[-1] == (many,)


async def test_deliveries_completed_in_a_handlers_transaction_count_too(
    any_cluster: Cluster,
) -> None:
    app = any_cluster.app()

    @app.handler("work")
    async def work(delivery: duly.Delivery[Any]) -> None:
        await delivery.transaction.fetch("select 1")

    process = await any_cluster.start_worker(app)
    await app.deliver("work")
    await process.engine.worker.step()
    await app.rollup_writer.tick()
    assert counts(await app.series(since=60), "completed", "on_time")[-1] == (1, 1)


async def test_a_failed_write_is_repeated(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = cluster.app()
    app.expect("work")
    await app.open()
    await app.deliver_many([("work", 1), ("work", 2)])

    async def unavailable(*_: Any) -> None:
        raise duly.StoreUnavailable("gone")

    with monkeypatch.context() as broken:
        broken.setattr(app.store.rollups, "add", unavailable)
        with pytest.raises(duly.StoreUnavailable):
            await app.rollup_writer.tick()
    assert counts(await app.series(since=60), "accepted")[-1] == (2,)


async def test_rollups_are_deleted_after_35_days(any_cluster: Cluster) -> None:
    app = any_cluster.app()
    app.expect("work")
    await app.open()
    await app.deliver("work")
    await app.rollup_writer.tick()
    before = any_cluster.clock.now()
    any_cluster.clock.advance(timedelta(days=34))
    await app.store.maintenance.prune(timedelta(days=1), timedelta(days=1), BEGINNING, 10)
    assert sum(each.accepted for each in (await series_around(app, before)).points) == 1
    any_cluster.clock.advance(timedelta(days=2))
    await app.store.maintenance.prune(timedelta(days=1), timedelta(days=1), BEGINNING, 10)
    assert sum(each.accepted for each in (await series_around(app, before)).points) == 0


BEGINNING = "00000000-0000-0000-0000-000000000000"


async def series_around(app: duly.App, at: Any) -> Series:
    return await app.series(at - timedelta(minutes=5), at + timedelta(minutes=5))
