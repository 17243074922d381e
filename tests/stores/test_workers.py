"""The roster: leases, burials, and what the dead still hold."""

from datetime import timedelta

import pytest

from duly.domain.deliveries.identifiers import worker_of
from duly.domain.deliveries.outcomes import Verdict
from duly.version import __version__
from tests.stores.books import START, Books, settlement


async def test_a_registration_tells_every_fact(books: Books) -> None:
    worker = await books.store.workers.register("host:42", 12.5, 77, ["sms", "mail"])
    assert await books.worker_row(worker) == {
        "id": worker,
        "namespace": "default",
        "name": "host:42",
        "version": __version__,
        "handlers": ["mail", "sms"],
        "namespaces": ["default"],
        "concurrency": 77,
        "lease": 12.5,
        "started_at": START,
        "beat_at": START,
        "ended_at": None,
        "ended_how": None,
        "reclaimed_at": None,
        "draining_at": None,
        "aside_at": None,
    }


async def test_a_number_is_never_given_again(books: Books) -> None:
    first = await books.worker()
    await books.sql("delete from duly.workers")
    assert await books.worker() > first


@pytest.mark.requirement("D7")
async def test_a_beat_renews_the_lease(books: Books) -> None:
    worker = await books.worker(lease=10)
    for _ in range(3):
        books.clock.advance(9)
        assert await books.store.workers.beat(worker)
        assert await books.store.workers.declare_dead() == []
    assert (await books.worker_row(worker))["beat_at"] == START + timedelta(seconds=27)


@pytest.mark.requirement("D7")
async def test_whoever_missed_its_lease_is_buried_and_hears_of_it(books: Books) -> None:
    silent, brief = await books.worker(lease=30), await books.worker(lease=5)
    books.clock.advance(5)
    assert await books.store.workers.declare_dead() == []
    books.clock.advance(0.001)
    assert await books.store.workers.declare_dead() == [brief]
    assert not await books.store.workers.beat(brief)
    assert await books.store.workers.beat(silent)
    row = await books.worker_row(brief)
    assert (row["ended_at"], row["ended_how"]) == (START + timedelta(seconds=5.001), "died")
    assert row["beat_at"] == START
    assert await books.store.workers.declare_dead() == []


async def test_the_one_owner_of_a_store_buries_everyone_else(books: Books) -> None:
    first, second, owner = await books.worker(), await books.worker(), await books.worker()
    assert sorted(await books.store.workers.declare_dead(survivor=owner)) == [first, second]
    assert await books.store.workers.beat(owner)


async def test_whoever_stopped_is_not_buried(books: Books) -> None:
    worker = await books.worker()
    books.clock.advance(3)
    await books.store.workers.end(worker)
    books.clock.advance(1000)
    assert await books.store.workers.declare_dead() == []
    row = await books.worker_row(worker)
    assert (row["ended_at"], row["ended_how"]) == (START + timedelta(seconds=3), "stopped")
    await books.store.workers.end(worker)
    assert await books.worker_row(worker) == row


@pytest.mark.requirement("D4")
async def test_what_the_dead_hold_is_found_with_their_tokens(books: Books) -> None:
    dead, alive = await books.worker(lease=5), await books.worker(lease=5000)
    held = [await books.claimed(dead, key=f"k{number}") for number in range(3)]
    beside = await books.claimed(alive)
    books.clock.advance(6)
    assert await books.store.agenda.held_by_dead(9) == []
    assert await books.store.workers.declare_dead() == [dead]
    found = await books.store.agenda.held_by_dead(9)
    assert sorted(found, key=lambda each: each.id) == held
    assert len(await books.store.agenda.held_by_dead(2)) == 2
    for each in found:
        assert await books.settle(settlement(each, Verdict.RECLAIMED, START)) == {each.lane}
    assert await books.store.agenda.held_by_dead(9) == []
    assert (await books.store.deliveries.get(beside.id)).state == "processing"


async def test_what_a_stopped_worker_left_behind_is_found_too(books: Books) -> None:
    worker = await books.worker()
    claimed = await books.claimed(worker)
    await books.store.workers.end(worker)
    assert [each.id for each in await books.store.agenda.held_by_dead(9)] == [claimed.id]


async def test_a_grave_is_closed_when_it_is_empty_and_cold(books: Books) -> None:
    worker = await books.worker(lease=5)
    claimed = await books.claimed(worker)
    books.clock.advance(6)
    await books.store.workers.declare_dead()
    books.clock.advance(61)
    await books.store.workers.finish_dead()
    assert (await books.worker_row(worker))["reclaimed_at"] is None
    await books.settle(settlement(claimed, Verdict.RECLAIMED, START))
    await books.store.workers.finish_dead()
    assert (await books.worker_row(worker))["reclaimed_at"] == START + timedelta(seconds=67)


async def test_a_fresh_grave_stays_open_for_a_claim_that_lands_late(books: Books) -> None:
    worker = await books.worker(lease=5)
    books.clock.advance(6)
    await books.store.workers.declare_dead()
    books.clock.advance(59)
    await books.store.workers.finish_dead()
    assert (await books.worker_row(worker))["reclaimed_at"] is None


async def test_the_roster_shows_the_living_first_and_what_they_hold(books: Books) -> None:
    dead, alive, silent = (
        await books.worker("dead", lease=5),
        await books.worker("alive", lease=500),
        await books.worker("silent", lease=8),
    )
    for _ in range(2):
        await books.claimed(alive)
    await books.claimed(dead)
    books.clock.advance(6)
    await books.store.workers.declare_dead()
    books.clock.advance(3)
    found = await books.store.workers.all()
    assert [(each.id, each.name, each.alive, each.holding) for each in found] == [
        (silent, "silent", False, 0),
        (alive, "alive", True, 2),
        (dead, "dead", False, 1),
    ]
    assert found[1].handlers == ["mail"]
    assert found[2].ended_how == "died"
    assert len(await books.store.workers.all(limit=2)) == 2


async def test_beside_gives_the_roster_to_another_thread(books: Books) -> None:
    worker = await books.worker()
    async with books.store.beside() as workers:
        assert await workers.beat(worker)
        books.clock.advance(3)
        assert await workers.beat(worker)
    assert (await books.worker_row(worker))["beat_at"] == START + timedelta(seconds=3)
    assert worker_of((await books.claimed(worker)).token) == worker


@pytest.mark.requirement("F3")
@pytest.mark.parametrize(
    ("ours", "theirs"), [(None, ["t"]), (["t"], None), (None, None), (["a", "b"], ["b", "c"])]
)
async def test_of_two_that_work_for_the_same_namespace_one_stands_aside(
    books: Books, ours: list[str] | None, theirs: list[str] | None
) -> None:
    first, second = (
        books.store.serving(ours).workers,
        books.store.within("t").serving(theirs).workers,
    )
    one = await first.register("host:1", 30.0, 10, [])
    two = await second.register("host:2", 30.0, 10, [])
    assert await first.reserve_suspects(one)
    assert not await second.reserve_suspects(two)
    await first.release_suspects(one)
    assert await second.reserve_suspects(two)
    assert not await first.reserve_suspects(one)


@pytest.mark.requirement("F3")
async def test_whoever_works_for_other_namespaces_stands_aside_as_well(books: Books) -> None:
    for served in (["a"], ["b", "c"], ["default"]):
        workers = books.store.serving(served).workers
        assert await workers.reserve_suspects(await workers.register("host:1", 30.0, 10, []))


@pytest.mark.requirement("F3")
async def test_a_worker_of_an_older_version_stands_aside_for_its_own_namespace(
    books: Books,
) -> None:
    old, new = await books.worker(), await books.worker()
    await books.sql(f"update duly.workers set namespaces = null where id = {old}")
    assert await books.store.workers.reserve_suspects(old)
    assert not await books.store.workers.reserve_suspects(new)
    others = books.store.within("others").workers
    assert await others.reserve_suspects(await others.register("host:1", 30.0, 10, []))
