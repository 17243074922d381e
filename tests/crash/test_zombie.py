"""A process that sleeps past its lease wakes as a zombie: what it writes changes nothing."""

from __future__ import annotations

import signal

import pytest

from tests.crash.fleet import Books, Fleet

pytestmark = pytest.mark.long


@pytest.fixture
def database_url(postgres_url: str) -> str:
    """Only PostgreSQL has several workers at once, and so zombies."""
    return postgres_url


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("place", ["complete.before", "complete.middle", "handler.enter"])
async def test_a_stopped_worker_that_wakes_after_its_lease_settles_nothing(
    fleet: Fleet, books: Books, place: str
) -> None:
    ids = await books.deliver("effect", 200)
    zombie = fleet.start(DULY_FAILPOINTS=f"{place}=stop@50", DULY_CONCURRENCY="20")
    await books.until("select count(*) > 20 from effects", True)
    heir = fleet.start()
    fleet.wait_for("Reclaimed")
    await books.until_finished()
    assert heir.alive
    zombie.signal(signal.SIGCONT)
    fleet.wait_for("LeaseWasLost")
    await books.assert_all_once(ids)
    assert zombie.alive, "it is born again as another worker"


@pytest.mark.requirement("D7")
async def test_a_late_settle_of_a_batch_is_refused_and_counted(fleet: Fleet, books: Books) -> None:
    ids = await books.deliver("touch", 50)
    zombie = fleet.start(DULY_FAILPOINTS="settle.before=stop@1")
    fleet.wait_for("touch")
    heir = fleet.start()
    fleet.wait_for("Reclaimed")
    await books.until_finished()
    before = await books.run("select id, token, finished_at from duly.deliveries order by id")
    zombie.signal(signal.SIGCONT)
    process, _ = fleet.wait_for("SettleRefused")
    assert process is zombie
    after = await books.run("select id, token, finished_at from duly.deliveries order by id")
    assert before == after
    assert len(after) == len(ids)
    assert heir.alive


@pytest.mark.requirement("D7")
async def test_a_blocked_event_loop_does_not_lose_the_lease(fleet: Fleet, books: Books) -> None:
    await books.deliver("block", 1)
    blocked = fleet.start()
    fleet.wait_for("block")
    fleet.start()
    process, _ = fleet.wait_for("unblocked")
    assert process is blocked
    await books.until_finished()
    assert await books.run("select count(*) from duly.attempts") == [(0,)]
