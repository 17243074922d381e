"""A namespace that a loop stumbles over is told by its name, and the others do not feel it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.domain.events import Event
from duly.engine.monitoring.alert_monitor import LOOK_SECONDS, AlertMonitor, AlertMonitors
from tests.engine.house import House, Life, heard


def broken(*_: Any) -> Any:
    raise RuntimeError("a row that nobody can read")


async def three_schedules(app: App) -> list[str]:
    ran: list[str] = []

    @app.handler("note")
    async def note(delivery: Delivery[Any]) -> None:
        ran.append(delivery.namespace)

    await app.open()
    for name in ("a", "b", "default"):
        await app.within(name).schedule("s", duly.every(timedelta(seconds=10)), "note", {})
    return ran


async def worked(life: Life, house: House) -> None:
    house.clock.advance(10)
    await life.engine.worker.planner.tick()
    while await life.engine.worker.step():
        pass


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("which", ["a", "default"])
async def test_a_namespace_that_cannot_be_planned_holds_up_no_other(
    any_house: House, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    app = any_house.app()
    told = heard(app, monkeypatch)
    ran = await three_schedules(app)
    engine = app.engine(stepped=True)
    store = engine.worker.store if which == "default" else engine.worker.store.within(which)
    monkeypatch.setattr(store.plans, "ready", broken)
    monkeypatch.setattr(store.plans, "is_behind", broken)
    monkeypatch.setattr(store.schedules, "zones", broken)
    await engine.prepare()
    for _ in range(3):
        await worked(Life(app, engine), any_house)
    for each in {"a", "b", "default"} - {which}:
        assert ran.count(each) == 3
    failed = {each.namespace for each in told if type(each).__name__ == "LoopFailed"}
    assert failed == {None if which == "default" else which}


@pytest.mark.requirement("C1")
async def test_a_namespace_that_cannot_be_planned_is_left_alone_for_a_while(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = house.app()
    await three_schedules(app)
    life = await house.born(app)
    for store in (life.engine.worker.store, life.engine.worker.store.within("a")):
        monkeypatch.setattr(store.plans, "ready", broken)
    house.clock.advance(10)
    for _ in range(3):
        await life.engine.worker.planner.tick()
    assert app.telemetry.counts["LoopFailed"] == 2
    house.clock.advance(6)
    await life.engine.worker.planner.tick()
    assert app.telemetry.counts["LoopFailed"] == 4


@pytest.mark.requirement("S4")
async def test_a_clock_that_steps_is_told_once_for_all_namespaces(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = house.app()
    told = heard(app, monkeypatch)
    await three_schedules(app)
    life = await house.born(app)
    for seconds in (20, 400, -300, 400):
        house.clock.step(timedelta(seconds=seconds))
        await life.engine.worker.planner.tick()
    kinds = ("ClockStepped", "ClockIsBehind", "PlannerTicked")
    of_the_clock = [each for each in told if type(each).__name__ in kinds]
    assert {type(each).__name__ for each in of_the_clock} == set(kinds)
    assert {each.namespace for each in of_the_clock} == {None}


class Broken(AlertMonitor):
    """One that cannot look."""

    def __init__(self) -> None:
        self.looked = 0
        super().__init__(None, broken, broken, {}, None)  # type: ignore[arg-type]

    async def tick(self) -> Any:
        self.looked += 1
        broken()


@pytest.mark.requirement("S4")
async def test_a_namespace_that_cannot_be_watched_holds_up_no_other() -> None:
    told: list[Event] = []
    others = {f"t{number}": Broken() for number in range(6)}

    async def names() -> list[str]:
        return sorted(others)

    own = Broken()
    watchmen = AlertMonitors(own, told.append, names, others.__getitem__)
    for _ in range(2):
        assert (await watchmen.tick()).seconds <= LOOK_SECONDS
    assert own.looked == 2
    assert all(each.looked for each in others.values())
    assert {each.namespace for each in told} == {None, *others}
