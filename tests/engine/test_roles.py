"""The roles of a process: each alone, and nothing that is not chosen."""

import asyncio
from datetime import timedelta

import pytest

import duly
from duly import App
from duly.domain.roles import Role, roles_of
from duly.errors import BadSetting
from duly.testing import VirtualClock
from tests.engine.cluster import Cluster, states
from tests.engine.conftest import START
from tests.engine.test_supervisor import counting_app, wait_for


def loops() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks()}


@pytest.fixture
async def cluster(postgres_url: str, clock: VirtualClock) -> Cluster:
    return Cluster(postgres_url, clock)


async def with_missed_occurrences(cluster: Cluster) -> App:
    app = cluster.app()
    app.expect("work")
    await app.open()
    await app.schedule("often", duly.every("1m", anchor=START), "work", catch_up="all")
    cluster.clock.advance(timedelta(minutes=3, seconds=30))
    return app


def test_roles_can_be_combined() -> None:
    assert roles_of("api,worker , planner api") == frozenset(Role)
    assert roles_of("worker") == {Role.WORKER}


@pytest.mark.requirement("S1")
async def test_the_api_alone_only_accepts(
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
async def test_the_planner_alone_only_plans(cluster: Cluster) -> None:
    await with_missed_occurrences(cluster)
    app = cluster.app(role="planner")
    await app.open()
    engine = app.engine()
    await engine.start()
    assert "planner" in loops()
    assert not loops() & {"dispatcher", "settler", "recovery", "lease monitor"}
    assert await app.store.workers.all() == []
    await engine.stop()
    assert (await states(app))["pending"] > 3
    await cluster.close()


@pytest.mark.requirement("S1")
async def test_a_worker_alone_claims_and_does_not_plan(postgres_url: str) -> None:
    app, handled, seen = counting_app(postgres_url, role="worker")
    accepting, _, _ = counting_app(postgres_url, role="api")
    async with app, accepting:
        engine = app.engine()
        await engine.start()
        await accepting.deliver("work", "from another process")
        await wait_for(handled, 1)
        assert "dispatcher" in loops()
        assert "planner" not in loops()
        await engine.stop()
    assert seen == ["from another process"]


@pytest.mark.requirement("S1", "C3")
async def test_a_worker_alone_claims_no_occurrence_that_will_be_merged(cluster: Cluster) -> None:
    first = await with_missed_occurrences(cluster)
    await first.schedule("often", duly.every("1m", anchor=START), "work", catch_up="latest")
    cluster.clock.advance(timedelta(minutes=10))
    app = cluster.app(role="worker")
    merged: list[int] = []

    @app.handler("work")
    async def work(delivery: duly.Delivery[object]) -> None:
        merged.append((await app.get(delivery.id)).merged)

    process = await cluster.start_worker(app)
    await process.tick()
    await process.finish()
    assert len(merged) == 1
    assert merged[0] > 0
    await cluster.close()


@pytest.mark.requirement("S1")
@pytest.mark.parametrize("role", ["api", "worker", "planner", "api,planner", "api,worker"])
async def test_a_sqlite_file_needs_one_process_with_all_roles(sqlite_url: str, role: str) -> None:
    app = App(sqlite_url, environment={}, role=role)
    with pytest.raises(BadSetting, match=r"role: a SQLite file belongs to one process.*PostgreSQL"):
        app.engine()
