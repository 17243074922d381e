"""Series of one target or one schedule: only the outcomes of its deliveries."""

from datetime import timedelta
from typing import Any

import pytest

import duly
from duly.engine.monitoring import part_counter
from duly.engine.monitoring.rollup_writer import PARTS_SECONDS
from duly.records.stats import Counts, Series
from tests.engine.cluster import Cluster

pytestmark = pytest.mark.requirement("S3", "S5")

BEGINNING = "00000000-0000-0000-0000-000000000000"


def outcomes(series: Series) -> list[tuple[int, ...]]:
    points = series.points
    found = [(each.completed, each.failed, each.dead, each.cancelled) for each in points]
    return [each for each in found if any(each)]


def serve(app: duly.App, name: str) -> None:
    @app.handler(name, retry=duly.no_retry)
    async def work(delivery: duly.Delivery[Any]) -> None:
        if delivery.payload == "bad":
            raise ValueError("no")


async def test_a_series_of_a_target_has_its_outcomes_by_the_minute(any_cluster: Cluster) -> None:
    app = any_cluster.app()
    serve(app, "email")
    serve(app, "print")
    process = await any_cluster.start_worker(app)
    await app.deliver_many([("email", "good"), ("email", "bad"), ("print", "good")])
    await process.engine.worker.step()
    any_cluster.clock.advance(60)
    await app.deliver("email", "good")
    await process.engine.worker.step()
    assert outcomes(await app.series(target="email")) == [(1, 1, 1, 0), (1, 0, 0, 0)]
    assert outcomes(await app.series(target="print")) == [(1, 0, 0, 0)]
    assert outcomes(await app.series(target="other")) == []
    assert outcomes(await app.series(step=3600, target="email")) == [(2, 1, 1, 0)]


async def test_a_series_of_a_schedule_has_its_outcomes_and_no_others(any_cluster: Cluster) -> None:
    app = any_cluster.app()
    serve(app, "work")
    process = await any_cluster.start_worker(app)
    await app.schedule("often", duly.every(timedelta(seconds=20)), "work", "good")
    await app.schedule("broken", duly.every(timedelta(seconds=60)), "work", "bad")
    await app.deliver("work")
    for _ in range(3):
        any_cluster.clock.advance(20)
        while await process.engine.worker.step():
            pass
    often, broken = await app.series(schedule="often"), await app.series(schedule="broken")
    assert sum(each.completed for each in often.points) == 3
    assert outcomes(broken) == [(0, 1, 1, 0)]


async def test_outcomes_of_a_tenant_are_in_its_own_series(any_cluster: Cluster) -> None:
    app = any_cluster.app()
    serve(app, "work")
    process = await any_cluster.start_worker(app)
    await app.within("two").deliver("work")
    await process.engine.worker.step()
    await app.rollup_writer.flush()
    assert outcomes(await app.within("two").series(target="work")) == [(1, 0, 0, 0)]
    assert outcomes(await app.series(target="work")) == []


async def test_parts_are_written_in_one_statement_every_ten_seconds(
    any_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = any_cluster.app()
    written: list[int] = []
    serve(app, "work")
    process = await any_cluster.start_worker(app)
    add = app.store.rollups.add_parts

    async def note(worker: int, counts: Any) -> None:
        written.append(len(counts))
        await add(worker, counts)

    monkeypatch.setattr(app.store.rollups, "add_parts", note)
    await app.rollup_writer.flush()
    for _ in range(int(PARTS_SECONDS)):
        await app.deliver("work")
        await process.engine.worker.step()
        await app.rollup_writer.tick()
        any_cluster.clock.advance(1)
    assert written == []
    await app.rollup_writer.tick()
    assert len(written) == 1
    total = (await app.series(step=3600, target="work")).points
    assert sum(each.completed for each in total) == int(PARTS_SECONDS)


async def test_counts_that_could_not_be_written_are_kept(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = cluster.app()
    serve(app, "work")
    process = await cluster.start_worker(app)
    await app.deliver("work")
    await process.engine.worker.step()

    async def unavailable(*_: Any) -> None:
        raise duly.StoreUnavailable("gone")

    with monkeypatch.context() as broken:
        broken.setattr(app.store.rollups, "add_parts", unavailable)
        with pytest.raises(duly.StoreUnavailable):
            await app.rollup_writer.flush()
    assert outcomes(await app.series(target="work")) == [(1, 0, 0, 0)]


async def test_memory_is_bounded_while_nothing_can_be_written(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_counter, "MOST", 2)
    app = cluster.app()
    for name in ("a", "b", "c"):
        serve(app, name)
    process = await cluster.start_worker(app)
    await app.deliver_many([("a", 1), ("b", 1), ("c", 1), ("a", 1)])
    await process.engine.worker.step()
    taken = app.rollup_writer.parts.take()
    assert len(taken) == 2
    assert all(isinstance(each, Counts) for each in taken.values())


async def test_parts_are_deleted_after_35_days(any_cluster: Cluster) -> None:
    app = any_cluster.app()
    serve(app, "work")
    process = await any_cluster.start_worker(app)
    await app.deliver("work")
    await process.engine.worker.step()
    await app.rollup_writer.flush()
    at = any_cluster.clock.now()
    kept = []
    for days in (34, 2):
        any_cluster.clock.advance(timedelta(days=days))
        await app.store.maintenance.prune(timedelta(days=1), timedelta(days=1), BEGINNING, 10)
        span = (at - timedelta(minutes=5), at + timedelta(minutes=5))
        kept.append(outcomes(await app.series(*span, target="work")))
    assert kept == [[(1, 0, 0, 0)], []]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"target": "a", "schedule": "b"}, "schedule"),
        ({"target": ""}, "target"),
        ({"schedule": ""}, "schedule"),
        ({"target": 7}, "target"),
    ],
)
async def test_a_part_that_cannot_be_is_refused(
    cluster: Cluster, given: dict[str, Any], field: str
) -> None:
    app = cluster.app()
    await app.open()
    with pytest.raises(duly.InvalidInput) as refused:
        await app.series(**given)
    assert refused.value.field == field
