"""Few connections: workers make do with what the server has, and give back what they do not use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.fleet import Books, Fleet, Process
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
    """The server's max_connections; three of them are not for ordinary roles."""
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
    """A database of an ordinary role, for which the server reserves nothing."""
    await small_postgres._execute("create role app login")
    await small_postgres.create_database("crash")
    await small_postgres._execute("alter database crash owner to app")
    return small_postgres.url("crash").replace("duly@", "app@")


@pytest.fixture
async def books(database_url: str) -> Books:
    """The auditor, who has the connections that are reserved for superusers."""
    books = Books(database_url)
    await books.prepare()
    books.database = database_url.replace("app@", "duly@")
    return books


def started(fleet: Fleet, count: int, **environment: str) -> list[Process]:
    workers = [fleet.start(**environment) for _ in range(count)]
    for _ in workers:
        process, words = next(
            each for each in fleet.words(30) if each[1][0] in ("WorkerStarted", "exited")
        )
        assert words[0] == "WorkerStarted", process
    return workers


async def in_use(books: Books) -> int:
    return int((await books.run(IN_USE))[0][0])


@pytest.mark.long
@pytest.mark.parametrize(("slots", "count"), [(20, 4), (8, 1)], indirect=["slots"])
async def test_workers_drain_everything_with_fewer_connections_than_they_would_like(
    fleet: Fleet, books: Books, slots: int, count: int
) -> None:
    workers = started(fleet, count)
    for _ in range(2):
        ids = await books.deliver("effect", 1000)
        await books.deliver("steps", 100)
        await books.until_finished(within=250.0)
        effects = [row[0] for row in await books.run("select distinct delivery from effects")]
        assert set(ids) <= set(effects)
        assert await in_use(books) <= slots - 3
    assert all(worker.alive for worker in workers)
    states = await books.run("select state, count(*) from duly.deliveries group by state")
    assert states == [("completed", 2200)]


@pytest.mark.long
@pytest.mark.parametrize("slots", [200], indirect=True)
async def test_after_load_as_few_are_open_as_before(fleet: Fleet, books: Books, slots: int) -> None:
    workers = started(fleet, 4)
    # A start does everything at once; then each gives back what it does not need.
    await books.until(f"select ({IN_USE}) between 20 and 32 and not exists ({NEW})", True)
    at_start = await in_use(books)
    await books.deliver("effect", 2000)
    await books.until_finished()
    assert await in_use(books) <= BUDGET * len(workers)
    await books.until(f"select ({IN_USE}) <= {at_start + 2}", True, within=60)
    assert slots > BUDGET * len(workers)


@pytest.mark.parametrize("slots", [8], indirect=True)
async def test_a_worker_whose_connections_are_lost_and_taken_by_others_goes_on(
    fleet: Fleet, books: Books, slots: int
) -> None:
    (worker,) = started(fleet, 1)
    await books.deliver("touch", 10)
    await books.until_finished()
    assert await in_use(books) <= slots - 3
    for _ in range(3):
        await books.run(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'"
        )
        await books.deliver("effect", 50)
        await books.until_finished()
    assert worker.alive
