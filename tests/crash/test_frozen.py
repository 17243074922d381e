"""A worker that is frozen inside a handler's transaction does not keep its locks."""

from __future__ import annotations

import signal

import pytest

from tests.crash.fleet import Fleet, StoreUnderTest

pytestmark = pytest.mark.requirement("D7", "D14")


@pytest.fixture
def database_url(postgres_url: str) -> str:
    """Only PostgreSQL has several workers."""
    return postgres_url


@pytest.mark.timeout(120)
async def test_a_retry_by_another_worker_does_not_wait_for_the_transaction_of_a_lost_lease(
    fleet: Fleet, store: StoreUnderTest
) -> None:
    await store.run("create table unique_effects (delivery text primary key, worker integer)")
    (id,) = await store.deliver("unique", 1)
    frozen = fleet.start(STOPS="yes")
    fleet.wait_for("unique")
    successor = fleet.start()
    await store.until("select state from duly.deliveries", "completed", within=20)
    assert await store.run("select attempt from duly.deliveries") == [(1,)]
    assert await store.run("select delivery, worker from unique_effects") == [
        (id, successor.popen.pid)
    ]
    frozen.signal(signal.SIGCONT)
    fleet.wait_for("LeaseWasLost")
    assert await store.run("select delivery, worker from unique_effects") == [
        (id, successor.popen.pid)
    ]
