"""A worker that is stopped inside a handler's transaction keeps nobody from its locks."""

from __future__ import annotations

import signal

import pytest

from tests.crash.fleet import Books, Fleet

pytestmark = pytest.mark.requirement("D7", "D14")


@pytest.fixture
def database_url(postgres_url: str) -> str:
    """Only PostgreSQL has several workers at once."""
    return postgres_url


@pytest.mark.timeout(120)
async def test_a_retry_elsewhere_does_not_wait_for_the_transaction_of_a_lost_lease(
    fleet: Fleet, books: Books
) -> None:
    await books.run("create table unique_effects (delivery text primary key, worker integer)")
    (id,) = await books.deliver("unique", 1)
    frozen = fleet.start(STOPS="yes")
    fleet.wait_for("unique")
    heir = fleet.start()
    await books.until("select state from duly.deliveries", "completed", within=20)
    assert await books.run("select attempt from duly.deliveries") == [(1,)]
    assert await books.run("select delivery, worker from unique_effects") == [(id, heir.popen.pid)]
    frozen.signal(signal.SIGCONT)
    fleet.wait_for("LeaseWasLost")
    assert await books.run("select delivery, worker from unique_effects") == [(id, heir.popen.pid)]
