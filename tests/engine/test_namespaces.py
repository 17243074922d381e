"""One worker works for every namespace of its store, evenly, and each has its own figures."""

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
from tests.engine.house import Gate, House, Life, only


class Seen:
    """A handler that notes whose delivery it was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    async def handle(self, delivery: Delivery[Any]) -> None:
        self.calls.append((delivery.namespace, delivery.payload))


@pytest.mark.requirement("D2")
async def test_a_tenants_delivery_is_done_by_a_server_in_the_default_namespace(
    any_house: House,
) -> None:
    app, seen = any_house.app(), Seen()
    app.handler("note")(seen.handle)
    life = await any_house.born(app)
    tenant = app.within("two")
    await tenant.deliver("note", "theirs")
    await app.deliver("note", "ours")
    while await life.engine.worker.step():
        pass
    assert sorted(seen.calls) == [("default", "ours"), ("two", "theirs")]
    assert (await only(tenant)).state == "completed"


@pytest.mark.requirement("C1")
async def test_a_tenants_schedule_is_planned_and_its_occurrences_go_out(any_house: House) -> None:
    app, seen = any_house.app(), Seen()
    app.handler("note")(seen.handle)
    life = await any_house.born(app)
    await app.within("two").schedule("tick", duly.every(timedelta(seconds=10)), "note", "tick")
    for _ in range(3):
        any_house.clock.advance(10)
        while await life.engine.worker.step():
            pass
    assert seen.calls == [("two", "tick")] * 3
    await life.engine.worker.planner.tick()
    planned = app.telemetry.tallies("default")
    assert planned["two"].accepted == 3
    assert planned["default"].accepted == 0


@pytest.mark.requirement("C6")
async def test_endpoints_of_the_same_name_are_told_apart(house: House) -> None:
    app = house.app(egress_allow="127.0.0.1")
    life = await house.born(app)
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
    await life.kill()


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
async def test_the_settings_say_for_whom(
    house: House, settings: dict[str, str], served: list[str] | None
) -> None:
    app = house.app(**settings)
    assert app.settings.served == served
    life = await house.born(app)
    (worker,) = await app.workers.all()
    assert worker.namespaces == (["*"] if served is None else served)
    await life.kill()


@pytest.mark.requirement("C10")
async def test_what_a_worker_does_not_work_for_is_left_and_stuck_says_why(
    any_house: House,
) -> None:
    app, seen = any_house.app(namespaces="default,three"), Seen()
    app.handler("note")(seen.handle)
    life = await any_house.born(app)
    tenant = app.within("two")
    tenant.expect("note")
    await tenant.deliver("note", "theirs")
    await tenant.deliver(duly.webhook("https://example.org/in"), "theirs")
    await app.deliver("note", "ours")
    while await life.engine.worker.step():
        pass
    assert seen.calls == [("default", "ours")]
    any_house.clock.advance(1)
    found = await tenant.stats.stuck(timedelta(minutes=5))
    assert [each.why for each in found] == [
        "no worker that is alive works for namespace 'two'; start one: duly serve --namespaces two"
    ] * 2


@pytest.mark.requirement("S3")
async def test_each_namespace_has_its_own_figures(any_house: House) -> None:
    app, seen = any_house.app(), Seen()
    app.handler("note")(seen.handle)
    life = await any_house.born(app)
    tenant = app.within("two")
    await app.deliver_many([("note", None)] * 2)
    await tenant.deliver_many([("note", None)] * 3)
    any_house.clock.advance(5)
    while await life.engine.worker.step():
        pass
    await app.rollup_writer.tick()
    for each, many in ((app, 2), (tenant, 3)):
        (point,) = (await each.series(MINUTE)).points[-1:]
        assert (point.accepted, point.completed, point.on_time) == (many, many, many)
        assert point.lateness_seconds == pytest.approx(5 * many)


@pytest.mark.requirement("C8")
async def test_a_tenant_with_many_targets_and_urgent_work_leaves_the_others_their_share(
    house: House,
) -> None:
    app, gate = house.app(concurrency=8), Gate()
    names = [f"work{number}" for number in range(10)]
    for name in names:
        app.handler(name)(gate.handle)
    life = await house.born(app)
    greedy, modest = app.within("greedy"), app.within("modest")
    await greedy.deliver_many(
        [{"target": name, "payload": "greedy", "priority": 9} for name in names for _ in range(9)]
    )
    await modest.deliver_many([("work0", "modest")] * 9)
    await life.tick()
    assert Counter(gate.entered) == {"greedy": 4, "modest": 4}
    gate.open.set()
    await life.finish()


async def test_more_namespaces_than_slots_get_their_turns(house: House) -> None:
    app, gate = house.app(concurrency=2), Gate()
    app.handler("work")(gate.handle)
    life = await house.born(app)
    gate.open.set()
    tenants = [f"t{number}" for number in range(7)]
    for each in tenants:
        await app.within(each).deliver_many([("work", each)] * 4)
    for _ in range(7):
        life.engine.worker.signal.hint()
        await life.engine.worker.dispatcher.tick()
        await life.finish()
    assert set(gate.entered) == set(tenants)


@pytest.mark.requirement("D4")
async def test_what_a_dead_worker_held_of_a_tenant_comes_back_with_the_tenants_plan(
    any_house: House,
) -> None:
    app, gate = any_house.app(namespaces="*"), Gate()
    app.handler("work", retry=duly.no_retry)(gate.handle)
    life = await any_house.born(app)
    await app.within("two").deliver("work", "again")
    await life.tick()
    await life.kill()
    any_house.clock.advance(60)
    other, seen = any_house.app(), Seen()
    other.handler("work", retry=duly.no_retry)(seen.handle)
    survivor = await any_house.born(other)
    assert other.telemetry.tallies("default")["two"].reclaimed == 1
    while await survivor.engine.worker.step():
        pass
    assert seen.calls == [("two", "again")]


@pytest.mark.requirement("C10")
async def test_upkeep_reaches_every_namespace_that_is_served(any_house: House) -> None:
    app, seen = any_house.app(), Seen()
    app.handler("note")(seen.handle)
    life = await any_house.born(app)
    for name in ("two", "three"):
        await app.within(name).deliver("note", name)
    while await life.engine.worker.step():
        pass
    any_house.clock.advance(timedelta(days=30).total_seconds())
    beginning = "00000000-0000-0000-0000-000000000000"
    week = timedelta(days=7)
    pruned, _ = await app.store.maintenance.prune(week, week, beginning, 100)
    assert pruned == 0, "an operator's command keeps to its own namespace"
    pruned, _ = await life.engine.worker.store.maintenance.prune(week, week, beginning, 100)
    assert pruned == 2


@pytest.mark.requirement("C5")
async def test_an_endpoint_that_is_gone_is_disabled_in_its_own_namespace(house: House) -> None:
    app = house.app()
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
    await Life(app, engine).kill()


@pytest.mark.requirement("D4")
@pytest.mark.parametrize("handled_here", [True, False])
async def test_what_is_taken_back_at_a_start_counts_for_its_namespace(
    any_house: House, handled_here: bool
) -> None:
    app, gate = any_house.app(), Gate()
    app.handler("work")(gate.handle)
    life = await any_house.born(app)
    await app.within("two").schedule("s", duly.every(timedelta(seconds=10)), "work", {})
    any_house.clock.advance(10)
    await life.tick()
    await life.kill()
    any_house.clock.advance(60)
    other = any_house.app()
    counted: list[str | None] = []
    other.handler("work" if handled_here else "another")(gate.handle)
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
    await Life(other, engine).kill()
