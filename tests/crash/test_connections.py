"""Few connections: workers use the available ones, and close those they do not need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.fleet import Fleet, Process, StoreUnderTest
from tests.support.postgres import Server, quickest_folder

pytestmark = [pytest.mark.requirement("D1", "D14"), pytest.mark.timeout(600)]
IN_USE = "select count(*) from pg_stat_activity where usename = 'app'"
NEW = (
    "select from pg_stat_activity"
    " where usename = 'app' and backend_start > now() - interval '5 seconds'"
)
BUDGET = 10


@pytest.fixture
def slots(request: pytest.FixtureRequest) -> int:
    """The server's max_connections; three of them are reserved."""
    wanted: int = getattr(request, "param", 20)
    return wanted


@pytest.fixture
def small_postgres(slots: int) -> Iterator[Server]:
    """A server with few connections."""
    settings = {"max_connections": str(slots), "max_wal_senders": "0"}
    with Server(settings=settings, data=quickest_folder()) as server:
        yield server


@pytest.fixture
async def database_url(small_postgres: Server) -> str:
    """A database of an ordinary role, without reserved connections."""
    await small_postgres._execute("create role app login")
    await small_postgres.create_database("crash")
    await small_postgres._execute("alter database crash owner to app")
    return small_postgres.url("crash").replace("duly@", "app@")


@pytest.fixture
async def store(database_url: str) -> StoreUnderTest:
    """The store, read over the connections that are reserved for superusers."""
    store = StoreUnderTest(database_url)
    await store.prepare()
    store.database = database_url.replace("app@", "duly@")
    return store


def start_workers(fleet: Fleet, count: int, **environment: str) -> list[Process]:
    """Workers that nothing kills: their lease holds on a slow machine too."""
    workers = [fleet.start(DULY_LEASE="60", **environment) for _ in range(count)]
    for _ in workers:
        process, words = next(
            each for each in fleet.lines(30) if each[1][0] in ("WorkerStarted", "exited")
        )
        assert words[0] == "WorkerStarted", process
    return workers


async def in_use(store: StoreUnderTest) -> int:
    return int((await store.run(IN_USE))[0][0])


@pytest.mark.long
@pytest.mark.parametrize(("slots", "count"), [(20, 4), (8, 1)], indirect=["slots"])
async def test_workers_drain_everything_with_fewer_connections_than_configured(
    fleet: Fleet, store: StoreUnderTest, slots: int, count: int
) -> None:
    workers = start_workers(fleet, count)
    for _ in range(2):
        ids = await store.deliver("effect", 1000)
        await store.deliver("steps", 100)
        await store.until_finished(within=250.0)
        effects = [row[0] for row in await store.run("select distinct delivery from effects")]
        assert set(ids) <= set(effects)
        assert await in_use(store) <= slots - 3
    assert all(worker.alive for worker in workers)
    states = await store.run("select state, count(*) from duly.deliveries group by state")
    assert states == [("completed", 2200)]


@pytest.mark.long
@pytest.mark.parametrize("slots", [200], indirect=True)
async def test_after_load_unused_connections_are_closed(
    fleet: Fleet, store: StoreUnderTest, slots: int
) -> None:
    workers = start_workers(fleet, 4)
    # A start uses many connections at once; then each worker closes those it does not need.
    await store.until(f"select ({IN_USE}) between 20 and 32 and not exists ({NEW})", True)
    at_start = await in_use(store)
    await store.deliver("effect", 2000)
    await store.until_finished()
    assert await in_use(store) <= BUDGET * len(workers)
    await store.until(f"select ({IN_USE}) <= {at_start + 2}", True)
    assert slots > BUDGET * len(workers)


@pytest.mark.parametrize("slots", [8], indirect=True)
async def test_a_worker_continues_after_its_connections_were_lost_and_taken_by_others(
    fleet: Fleet, store: StoreUnderTest, slots: int
) -> None:
    (worker,) = start_workers(fleet, 1)
    await store.deliver("touch", 10)
    await store.until_finished()
    assert await in_use(store) <= slots - 3
    for _ in range(3):
        await store.run(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'"
        )
        await store.deliver("effect", 50)
        await store.until_finished()
    assert worker.alive
