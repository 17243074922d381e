"""PostgreSQL crashes, restarts and drops connections under load; the workers continue."""

from __future__ import annotations

import random

import pytest

from tests.crash.fleet import Fleet, Process, StoreUnderTest
from tests.support.postgres import Server


@pytest.fixture
async def database_url(own_postgres: Server) -> str:
    """A server of this test alone, since it is crashed."""
    return await own_postgres.create_database("crash")


def _wait_until_all_work(fleet: Fleet, workers: list[Process]) -> None:
    """A worker that loses its database during its start ends with an error; later it must not."""
    starting = set(workers)
    for process, words in fleet.lines():
        assert words[0] != "exited"
        if words[0] == "effect":
            starting.discard(process)
        if not starting:
            return


@pytest.mark.long
@pytest.mark.requirement("D14", "D4")
@pytest.mark.timeout(180)
async def test_ten_immediate_restarts_under_load_lose_and_repeat_nothing(
    fleet: Fleet, store: StoreUnderTest, own_postgres: Server
) -> None:
    ids = await store.deliver("effect", 2000)
    workers = [fleet.start() for _ in range(3)]
    _wait_until_all_work(fleet, workers)
    restarts, effects = 0, 0
    for _process, words in fleet.lines():
        assert words[0] != "exited", "a worker must survive a crash of its database"
        effects += words[0] == "effect"
        if effects >= 120 and restarts < 10:
            own_postgres.restart("immediate")
            restarts, effects = restarts + 1, 0
        elif restarts == 10:
            break
    await store.until_finished()
    assert restarts == 10
    assert all(worker.alive for worker in workers)
    await store.assert_all_once(ids)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.requirement("D14")
async def test_terminated_connections_are_replaced(fleet: Fleet, store: StoreUnderTest) -> None:
    ids = await store.deliver("effect", 1000)
    workers = [fleet.start() for _ in range(2)]
    _wait_until_all_work(fleet, workers)
    chance = random.Random(7)
    until_next, terminations = 50, 0
    for _process, words in fleet.lines():
        until_next -= words[0] == "effect"
        if until_next <= 0:
            await store.run(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name like 'duly%'"
            )
            terminations, until_next = terminations + 1, chance.randrange(30, 120)
        if terminations == 8:
            break
    await store.until_finished(within=400.0)
    assert all(worker.alive for worker in workers)
    await store.assert_all_once(ids)
