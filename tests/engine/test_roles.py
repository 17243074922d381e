"""What one process does of it all: each part alone, and none that is not asked for."""

import asyncio
from datetime import timedelta

import pytest

import duly
from duly import App
from duly.domain.roles import Role, roles_of
from duly.errors import BadSetting
from duly.testing import VirtualClock
from tests.engine.conftest import START
from tests.engine.house import House, states
from tests.engine.test_supervisor import counting_app, heard


def loops() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks()}


@pytest.fixture
async def apart(postgres_url: str, clock: VirtualClock) -> House:
    return House(postgres_url, clock)


async def with_missed_occurrences(house: House) -> App:
    app = house.app()
    app.expect("work")
    await app.open()
    await app.schedule("often", duly.every("1m", anchor=START), "work", catch_up="all")
    house.clock.advance(timedelta(minutes=3, seconds=30))
    return app


def test_roles_may_be_named_in_any_mix() -> None:
    assert roles_of("api,worker , planner api") == frozenset(Role)
    assert roles_of("worker") == {Role.WORKER}


@pytest.mark.requirement("S1")
async def test_the_api_alone_accepts_and_claims_plans_and_registers_nothing(
    postgres_url: str,
) -> None:
    app, _, seen = counting_app(postgres_url, role="api")
    async with app:
        engine = app.engine()
        await engine.start()
        await app.deliver("work")
        assert not loops() & {"dispatcher", "settler", "recovery", "planner", "lease monitor"}
        assert await app.store.workers.all() == []
        await engine.stop()
        assert await states(app) == {"pending": 1}
    assert seen == []


@pytest.mark.requirement("S1")
async def test_the_planner_alone_plans_and_claims_nothing(apart: House) -> None:
    await with_missed_occurrences(apart)
    app = apart.app(role="planner")
    await app.open()
    engine = app.engine()
    await engine.start()
    assert "planner" in loops()
    assert not loops() & {"dispatcher", "settler", "recovery", "lease monitor"}
    assert await app.store.workers.all() == []
    await engine.stop()
    assert (await states(app))["pending"] > 3
    await apart.close()


@pytest.mark.requirement("S1")
async def test_a_worker_alone_claims_and_leaves_planning_to_others(postgres_url: str) -> None:
    app, said, seen = counting_app(postgres_url, role="worker")
    accepting, _, _ = counting_app(postgres_url, role="api")
    async with app, accepting:
        engine = app.engine()
        await engine.start()
        await accepting.deliver("work", "from elsewhere")
        await heard(said, 1)
        assert "dispatcher" in loops()
        assert "planner" not in loops()
        await engine.stop()
    assert seen == ["from elsewhere"]


@pytest.mark.requirement("S1", "C3")
async def test_a_worker_alone_claims_nothing_that_is_to_be_merged(apart: House) -> None:
    first = await with_missed_occurrences(apart)
    await first.schedule("often", duly.every("1m", anchor=START), "work", catch_up="latest")
    apart.clock.advance(timedelta(minutes=10))
    app = apart.app(role="worker")
    merged: list[int] = []

    @app.handler("work")
    async def work(delivery: duly.Delivery[object]) -> None:
        merged.append((await app.get(delivery.id)).merged)

    life = await apart.born(app)
    await life.tick()
    await life.finish()
    assert len(merged) == 1
    assert merged[0] > 0
    await apart.close()


@pytest.mark.requirement("S1")
@pytest.mark.parametrize("role", ["api", "worker", "planner", "api,planner", "api,worker"])
async def test_a_file_has_one_process_that_has_to_be_worker_and_planner(
    sqlite_url: str, role: str
) -> None:
    app = App(sqlite_url, environment={}, role=role)
    with pytest.raises(BadSetting, match=r"role: a SQLite file belongs to one process.*PostgreSQL"):
        app.engine()
