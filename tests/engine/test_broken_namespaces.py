"""A namespace that makes a loop fail is named in the event, and does not affect the others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.domain.events import Event
from duly.engine.monitoring.alert_monitor import LOOK_SECONDS, AlertMonitor, AlertMonitors
from tests.engine.cluster import Cluster, WorkerProcess, record_events


def broken(*_: Any) -> Any:
    raise RuntimeError("an unreadable row")


async def three_schedules(app: App) -> list[str]:
    ran: list[str] = []

    @app.handler("note")
    async def note(delivery: Delivery[Any]) -> None:
        ran.append(delivery.namespace)

    await app.open()
    for name in ("a", "b", "default"):
        await app.within(name).schedule("s", duly.every(timedelta(seconds=10)), "note", {})
    return ran


async def plan_and_work(process: WorkerProcess, cluster: Cluster) -> None:
    cluster.clock.advance(10)
    await process.engine.worker.planner.tick()
    while await process.engine.worker.step():
        pass


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("which", ["a", "default"])
async def test_a_namespace_that_cannot_be_planned_does_not_block_others(
    any_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    app = any_cluster.app()
    events = record_events(app, monkeypatch)
    ran = await three_schedules(app)
    engine = app.engine(stepped=True)
    store = engine.worker.store if which == "default" else engine.worker.store.within(which)
    monkeypatch.setattr(store.plans, "ready", broken)
    monkeypatch.setattr(store.plans, "is_behind", broken)
    monkeypatch.setattr(store.schedules, "zones", broken)
    await engine.prepare()
    for _ in range(3):
        await plan_and_work(WorkerProcess(app, engine), any_cluster)
    for each in {"a", "b", "default"} - {which}:
        assert ran.count(each) == 3
    failed = {each.namespace for each in events if type(each).__name__ == "LoopFailed"}
    assert failed == {None if which == "default" else which}


@pytest.mark.requirement("C1")
async def test_a_namespace_that_cannot_be_planned_is_skipped_for_a_while(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = cluster.app()
    await three_schedules(app)
    process = await cluster.start_worker(app)
    for store in (process.engine.worker.store, process.engine.worker.store.within("a")):
        monkeypatch.setattr(store.plans, "ready", broken)
    cluster.clock.advance(10)
    for _ in range(3):
        await process.engine.worker.planner.tick()
    assert app.telemetry.counts["LoopFailed"] == 2
    cluster.clock.advance(6)
    await process.engine.worker.planner.tick()
    assert app.telemetry.counts["LoopFailed"] == 4


@pytest.mark.requirement("S4")
async def test_a_clock_step_is_reported_once_for_all_namespaces(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = cluster.app()
    events = record_events(app, monkeypatch)
    await three_schedules(app)
    process = await cluster.start_worker(app)
    for seconds in (20, 400, -300, 400):
        cluster.clock.step(timedelta(seconds=seconds))
        await process.engine.worker.planner.tick()
    kinds = ("ClockStepped", "ClockIsBehind", "PlannerTicked")
    of_the_clock = [each for each in events if type(each).__name__ in kinds]
    assert {type(each).__name__ for each in of_the_clock} == set(kinds)
    assert {each.namespace for each in of_the_clock} == {None}


class Broken(AlertMonitor):
    """An alert monitor that fails."""

    def __init__(self) -> None:
        self.ticks = 0
        super().__init__(None, broken, broken, {}, None)  # type: ignore[arg-type]

    async def tick(self) -> Any:
        self.ticks += 1
        broken()


@pytest.mark.requirement("S4")
async def test_a_namespace_that_cannot_be_monitored_does_not_block_others() -> None:
    events: list[Event] = []
    others = {f"t{number}": Broken() for number in range(6)}

    async def names() -> list[str]:
        return sorted(others)

    own = Broken()
    monitors = AlertMonitors(own, events.append, names, others.__getitem__)
    for _ in range(2):
        assert (await monitors.tick()).seconds <= LOOK_SECONDS
    assert own.ticks == 2
    assert all(each.ticks for each in others.values())
    assert {each.namespace for each in events} == {None, *others}
