"""A process that is stopped for longer than its lease: its later writes change nothing."""

from __future__ import annotations

import signal

import pytest

from tests.crash.fleet import Fleet, StoreUnderTest

pytestmark = pytest.mark.long


@pytest.fixture
def database_url(postgres_url: str) -> str:
    """Only PostgreSQL has several workers."""
    return postgres_url


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("place", ["complete.before", "complete.middle", "handler.enter"])
async def test_a_stopped_worker_that_continues_after_its_lease_settles_nothing(
    fleet: Fleet, store: StoreUnderTest, place: str
) -> None:
    ids = await store.deliver("effect", 200)
    zombie = fleet.start(DULY_FAILPOINTS=f"{place}=stop@50", DULY_CONCURRENCY="20")
    await store.until("select count(*) > 20 from effects", True)
    successor = fleet.start()
    fleet.wait_for("Reclaimed")
    await store.until_finished()
    assert successor.alive
    zombie.signal(signal.SIGCONT)
    fleet.wait_for("LeaseWasLost")
    await store.assert_all_once(ids)
    assert zombie.alive, "it continues as a new worker"


@pytest.mark.requirement("D7")
async def test_a_late_settle_of_a_batch_is_refused_and_counted(
    fleet: Fleet, store: StoreUnderTest
) -> None:
    ids = await store.deliver("touch", 50)
    zombie = fleet.start(DULY_FAILPOINTS="settle.before=stop@1")
    fleet.wait_for("touch")
    successor = fleet.start()
    fleet.wait_for("Reclaimed")
    await store.until_finished()
    before = await store.run("select id, token, finished_at from duly.deliveries order by id")
    zombie.signal(signal.SIGCONT)
    process, _ = fleet.wait_for("SettleRefused")
    assert process is zombie
    after = await store.run("select id, token, finished_at from duly.deliveries order by id")
    assert before == after
    assert len(after) == len(ids)
    assert successor.alive


@pytest.mark.requirement("D7")
async def test_a_blocked_event_loop_does_not_lose_the_lease(
    fleet: Fleet, store: StoreUnderTest
) -> None:
    await store.deliver("block", 1)
    blocked = fleet.start()
    fleet.wait_for("block")
    fleet.start()
    process, _ = fleet.wait_for("unblocked")
    assert process is blocked
    await store.until_finished()
    assert await store.run("select count(*) from duly.attempts") == [(0,)]
