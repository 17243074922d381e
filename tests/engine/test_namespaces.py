"""One worker serves every namespace of its store in equal shares, with separate counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import Delivery
from duly.domain.deliveries import retry
from duly.domain.deliveries.outcomes import Failed, Settlement
from duly.domain.monitoring.rollups import MINUTE
from duly.engine.supervisor import Engine
from duly.engine.targets.directory import TargetDirectory
from duly.engine.worker import Worker
from duly.records.reason import Reason
from duly.testing import RecordingTransport
from tests.engine.cluster import Barrier, Cluster, WorkerProcess, only_delivery


class Recorder:
    """A handler that records namespace and payload."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    async def handle(self, delivery: Delivery[Any]) -> None:
        self.calls.append((delivery.namespace, delivery.payload))


@pytest.mark.requirement("D2")
async def test_a_server_in_the_default_namespace_executes_a_tenants_delivery(
    any_cluster: Cluster,
) -> None:
    app, recorder = any_cluster.app(), Recorder()
    app.handler("note")(recorder.handle)
    process = await any_cluster.start_worker(app)
    tenant = app.within("two")
    await tenant.deliver("note", "theirs")
    await app.deliver("note", "ours")
    while await process.engine.worker.step():
        pass
    assert sorted(recorder.calls) == [("default", "ours"), ("two", "theirs")]
    assert (await only_delivery(tenant)).state == "completed"


@pytest.mark.requirement("C1")
async def test_a_tenants_schedule_is_planned_and_its_occurrences_are_executed(
    any_cluster: Cluster,
) -> None:
    app, recorder = any_cluster.app(), Recorder()
    app.handler("note")(recorder.handle)
    process = await any_cluster.start_worker(app)
    await app.within("two").schedule("tick", duly.every(timedelta(seconds=10)), "note", "tick")
    for _ in range(3):
        any_cluster.clock.advance(10)
        while await process.engine.worker.step():
            pass
    assert recorder.calls == [("two", "tick")] * 3
    await process.engine.worker.planner.tick()
    planned = app.telemetry.tallies("default")
    assert planned["two"].counts.accepted == 3
    assert planned["default"].counts.accepted == 0


@pytest.mark.requirement("C6")
async def test_endpoints_of_the_same_name_in_two_namespaces_are_separate(cluster: Cluster) -> None:
    app = cluster.app(egress_allow="127.0.0.1")
    process = await cluster.start_worker(app)
    tenant = app.within("two")
    await app.endpoints.add("billing", "http://127.0.0.1:1/ours")
    await tenant.endpoints.add("billing", "http://127.0.0.1:1/theirs", retry=duly.no_retry)
    ours, theirs = (
        await app.endpoint_cache.reach("billing", "default"),
        await app.endpoint_cache.reach("billing", "two"),
    )
    assert ours is not None
    assert theirs is not None
    assert (ours.webhook.url, theirs.webhook.url) == (
        "http://127.0.0.1:1/ours",
        "http://127.0.0.1:1/theirs",
    )
    assert ours.keys != theirs.keys
    assert app.plan("endpoint:billing") == retry.WEBHOOK
    assert tenant.plan("endpoint:billing") == duly.no_retry
    await process.kill()


@pytest.mark.parametrize(
    ("settings", "served"),
    [
        ({}, None),
        ({"namespaces": "*"}, None),
        ({"namespace": "mine"}, ["mine"]),
        ({"namespace": "mine", "namespaces": "*"}, None),
        ({"namespaces": "b, a"}, ["a", "b"]),
    ],
)
async def test_the_settings_choose_the_namespaces(
    cluster: Cluster, settings: dict[str, str], served: list[str] | None
) -> None:
    app = cluster.app(**settings)
    assert app.settings.served == served
    process = await cluster.start_worker(app)
    (worker,) = await app.workers.list()
    assert worker.namespaces == (["*"] if served is None else served)
    await process.kill()


@pytest.mark.requirement("C10")
async def test_deliveries_of_an_unserved_namespace_are_stuck_with_the_reason(
    any_cluster: Cluster,
) -> None:
    app, recorder = any_cluster.app(namespaces="default,three"), Recorder()
    app.handler("note")(recorder.handle)
    process = await any_cluster.start_worker(app)
    tenant = app.within("two")
    tenant.expect("note")
    await tenant.deliver("note", "theirs")
    await tenant.deliver(duly.webhook("https://example.org/in"), "theirs")
    await app.deliver("note", "ours")
    while await process.engine.worker.step():
        pass
    assert recorder.calls == [("default", "ours")]
    any_cluster.clock.advance(1)
    found = await tenant.stats.stuck(timedelta(minutes=5))
    assert [each.why for each in found] == [
        "no worker that is alive works for namespace 'two'; start one: duly serve --namespaces two"
    ] * 2


@pytest.mark.requirement("S3")
async def test_each_namespace_has_its_own_counts(any_cluster: Cluster) -> None:
    app, recorder = any_cluster.app(), Recorder()
    app.handler("note")(recorder.handle)
    process = await any_cluster.start_worker(app)
    tenant = app.within("two")
    await app.deliver_many([("note", None)] * 2)
    await tenant.deliver_many([("note", None)] * 3)
    any_cluster.clock.advance(5)
    while await process.engine.worker.step():
        pass
    await app.rollup_writer.tick()
    for each, many in ((app, 2), (tenant, 3)):
        (point,) = (await each.series(MINUTE)).points[-1:]
        assert (point.accepted, point.completed, point.on_time) == (many, many, many)
        assert point.lateness_seconds == pytest.approx(5 * many)


@pytest.mark.requirement("C8")
async def test_a_tenant_with_much_urgent_work_leaves_the_others_their_share(
    cluster: Cluster,
) -> None:
    app, barrier = cluster.app(concurrency=8), Barrier()
    names = [f"work{number}" for number in range(10)]
    for name in names:
        app.handler(name)(barrier.handle)
    process = await cluster.start_worker(app)
    greedy, modest = app.within("greedy"), app.within("modest")
    await greedy.deliver_many(
        [{"target": name, "payload": "greedy", "priority": 9} for name in names for _ in range(9)]
    )
    await modest.deliver_many([("work0", "modest")] * 9)
    await process.tick()
    assert Counter(barrier.entered) == {"greedy": 4, "modest": 4}
    barrier.open.set()
    await process.finish()


async def test_more_namespaces_than_slots_take_turns(cluster: Cluster) -> None:
    app, barrier = cluster.app(concurrency=2), Barrier()
    app.handler("work")(barrier.handle)
    process = await cluster.start_worker(app)
    barrier.open.set()
    tenants = [f"t{number}" for number in range(7)]
    for each in tenants:
        await app.within(each).deliver_many([("work", each)] * 4)
    for _ in range(7):
        process.engine.worker.signal.hint()
        await process.engine.worker.dispatcher.tick()
        await process.finish()
    assert set(barrier.entered) == set(tenants)


@pytest.mark.requirement("D4")
async def test_a_tenants_delivery_of_a_dead_worker_is_reclaimed_by_the_tenants_plan(
    any_cluster: Cluster,
) -> None:
    app, barrier = any_cluster.app(namespaces="*"), Barrier()
    app.handler("work", retry=duly.no_retry)(barrier.handle)
    process = await any_cluster.start_worker(app)
    await app.within("two").deliver("work", "again")
    await process.tick()
    await process.kill()
    any_cluster.clock.advance(60)
    other, recorder = any_cluster.app(), Recorder()
    other.handler("work", retry=duly.no_retry)(recorder.handle)
    survivor = await any_cluster.start_worker(other)
    assert other.telemetry.tallies("default")["two"].counts.reclaimed == 1
    while await survivor.engine.worker.step():
        pass
    assert recorder.calls == [("two", "again")]


@pytest.mark.requirement("C10")
async def test_maintenance_covers_every_served_namespace(any_cluster: Cluster) -> None:
    app, recorder = any_cluster.app(), Recorder()
    app.handler("note")(recorder.handle)
    process = await any_cluster.start_worker(app)
    for name in ("two", "three"):
        await app.within(name).deliver("note", name)
    while await process.engine.worker.step():
        pass
    any_cluster.clock.advance(timedelta(days=30).total_seconds())
    beginning = "00000000-0000-0000-0000-000000000000"
    week = timedelta(days=7)
    pruned, _ = await app.store.maintenance.prune(week, week, beginning, 100)
    assert pruned == 0, "an operator's command applies to one namespace"
    pruned, _ = await process.engine.worker.store.maintenance.prune(week, week, beginning, 100)
    assert pruned == 2


@pytest.mark.requirement("C5")
async def test_an_endpoint_that_is_gone_is_disabled_in_its_own_namespace(cluster: Cluster) -> None:
    app = cluster.app()
    transport = RecordingTransport(
        "endpoint:old", answers=[Failed(Reason.UNKNOWN, "410", gone=True)]
    )
    await app.open()
    tenant = app.within("two")
    await tenant.endpoints.add("old", "https://example.org/old")
    await tenant.deliver(duly.endpoint("old"), None)
    engine = app.engine(transport, stepped=True)
    await engine.prepare()
    await engine.worker.step()
    assert [each.action for each in await tenant.audit.list(limit=9)][:1] == ["endpoint.disabled"]
    assert await app.audit.list(limit=9) == []
    await WorkerProcess(app, engine).kill()


@pytest.mark.requirement("D4")
@pytest.mark.parametrize("handled_here", [True, False])
async def test_deliveries_reclaimed_at_the_start_count_for_their_namespace(
    any_cluster: Cluster, handled_here: bool
) -> None:
    app, barrier = any_cluster.app(), Barrier()
    app.handler("work")(barrier.handle)
    process = await any_cluster.start_worker(app)
    await app.within("two").schedule("s", duly.every(timedelta(seconds=10)), "work", {})
    any_cluster.clock.advance(10)
    await process.tick()
    await process.kill()
    any_cluster.clock.advance(60)
    other = any_cluster.app()
    counted: list[str | None] = []
    other.handler("work" if handled_here else "another")(barrier.handle)
    await other.open()

    def count(settled: Sequence[Settlement], directory: TargetDirectory) -> None:
        counted.extend(directory.foreign.get(each.target) for each in settled)

    worker = Worker(
        other.store,
        other.transports,
        other.clock,
        other.chance,
        other.telemetry.emit,
        other.settings,
        "here:1",
        observers=[count],
        stepped=True,
    )
    engine = Engine(worker, [], other.chance, other.telemetry.emit)
    await engine.prepare()
    assert counted == ["two"]
    await WorkerProcess(other, engine).kill()
