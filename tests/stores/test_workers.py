"""Workers in the store: leases, deaths, and what dead workers hold."""

from datetime import timedelta

import pytest

from duly.domain.deliveries.identifiers import worker_of
from duly.domain.deliveries.outcomes import Verdict
from duly.version import __version__
from tests.stores.store_probe import START, StoreProbe, settlement


async def test_a_registration_stores_every_field(probe: StoreProbe) -> None:
    worker = await probe.store.workers.register(
        "host:42", 12.5, 77, ["sms", "mail"], ["weekly", "daily"], "v42"
    )
    assert await probe.worker_row(worker) == {
        "id": worker,
        "namespace": "default",
        "name": "host:42",
        "version": __version__,
        "handlers": ["mail", "sms"],
        "schedules": ["daily", "weekly"],
        "namespaces": ["default"],
        "concurrency": 77,
        "lease": 12.5,
        "generation": "v42",
        "started_at": START,
        "beat_at": START,
        "ended_at": None,
        "ended_how": None,
        "reclaimed_at": None,
        "draining_at": None,
        "aside_at": None,
    }


async def test_a_worker_id_is_never_used_twice(probe: StoreProbe) -> None:
    first = await probe.worker()
    await probe.sql("delete from duly.workers")
    assert await probe.worker() > first


@pytest.mark.requirement("D7")
async def test_a_heartbeat_renews_the_lease(probe: StoreProbe) -> None:
    worker = await probe.worker(lease=10)
    for _ in range(3):
        probe.clock.advance(9)
        assert await probe.store.workers.beat(worker)
        assert await probe.store.workers.declare_dead() == []
    assert (await probe.worker_row(worker))["beat_at"] == START + timedelta(seconds=27)


@pytest.mark.requirement("D7")
async def test_a_worker_that_missed_its_lease_is_declared_dead_and_its_heartbeat_fails(
    probe: StoreProbe,
) -> None:
    silent, brief = await probe.worker(lease=30), await probe.worker(lease=5)
    probe.clock.advance(5)
    assert await probe.store.workers.declare_dead() == []
    probe.clock.advance(0.001)
    assert await probe.store.workers.declare_dead() == [brief]
    assert not await probe.store.workers.beat(brief)
    assert await probe.store.workers.beat(silent)
    row = await probe.worker_row(brief)
    assert (row["ended_at"], row["ended_how"]) == (START + timedelta(seconds=5.001), "died")
    assert row["beat_at"] == START
    assert await probe.store.workers.declare_dead() == []


async def test_the_owner_of_a_store_declares_all_other_workers_dead(probe: StoreProbe) -> None:
    first, second, owner = await probe.worker(), await probe.worker(), await probe.worker()
    assert sorted(await probe.store.workers.declare_dead(survivor=owner)) == [first, second]
    assert await probe.store.workers.beat(owner)


async def test_a_stopped_worker_is_not_declared_dead(probe: StoreProbe) -> None:
    worker = await probe.worker()
    probe.clock.advance(3)
    await probe.store.workers.end(worker)
    probe.clock.advance(1000)
    assert await probe.store.workers.declare_dead() == []
    row = await probe.worker_row(worker)
    assert (row["ended_at"], row["ended_how"]) == (START + timedelta(seconds=3), "stopped")
    await probe.store.workers.end(worker)
    assert await probe.worker_row(worker) == row


@pytest.mark.requirement("D4")
async def test_lanes_held_by_dead_workers_are_found_with_their_tokens(probe: StoreProbe) -> None:
    dead, alive = await probe.worker(lease=5), await probe.worker(lease=5000)
    held = [await probe.claimed(dead, key=f"k{number}") for number in range(3)]
    unrelated = await probe.claimed(alive)
    probe.clock.advance(6)
    assert await probe.store.agenda.held_by_dead(9) == []
    assert await probe.store.workers.declare_dead() == [dead]
    found = await probe.store.agenda.held_by_dead(9)
    assert sorted(found, key=lambda each: each.id) == held
    assert len(await probe.store.agenda.held_by_dead(2)) == 2
    for each in found:
        assert await probe.settle(settlement(each, Verdict.RECLAIMED, START)) == {each.lane}
    assert await probe.store.agenda.held_by_dead(9) == []
    assert (await probe.store.deliveries.get(unrelated.id)).state == "processing"


async def test_lanes_held_by_a_stopped_worker_are_found_too(probe: StoreProbe) -> None:
    worker = await probe.worker()
    claimed = await probe.claimed(worker)
    await probe.store.workers.end(worker)
    assert [each.id for each in await probe.store.agenda.held_by_dead(9)] == [claimed.id]


async def test_a_dead_worker_is_finished_when_it_holds_nothing_after_a_minute(
    probe: StoreProbe,
) -> None:
    worker = await probe.worker(lease=5)
    claimed = await probe.claimed(worker)
    probe.clock.advance(6)
    await probe.store.workers.declare_dead()
    probe.clock.advance(61)
    await probe.store.workers.finish_dead()
    assert (await probe.worker_row(worker))["reclaimed_at"] is None
    await probe.settle(settlement(claimed, Verdict.RECLAIMED, START))
    await probe.store.workers.finish_dead()
    assert (await probe.worker_row(worker))["reclaimed_at"] == START + timedelta(seconds=67)


async def test_a_worker_that_died_recently_is_not_finished(probe: StoreProbe) -> None:
    worker = await probe.worker(lease=5)
    probe.clock.advance(6)
    await probe.store.workers.declare_dead()
    probe.clock.advance(59)
    await probe.store.workers.finish_dead()
    assert (await probe.worker_row(worker))["reclaimed_at"] is None


async def test_living_workers_are_listed_first_with_the_number_of_held_lanes(
    probe: StoreProbe,
) -> None:
    dead, alive, silent = (
        await probe.worker("dead", lease=5),
        await probe.worker("alive", lease=500),
        await probe.worker("silent", lease=8),
    )
    for _ in range(2):
        await probe.claimed(alive)
    await probe.claimed(dead)
    probe.clock.advance(6)
    await probe.store.workers.declare_dead()
    probe.clock.advance(3)
    found = await probe.store.workers.all()
    assert [(each.id, each.name, each.alive, each.holding) for each in found] == [
        (silent, "silent", False, 0),
        (alive, "alive", True, 2),
        (dead, "dead", False, 1),
    ]
    assert found[1].handlers == ["mail"]
    assert found[2].ended_how == "died"
    assert len(await probe.store.workers.all(limit=2)) == 2


async def test_a_heartbeat_works_on_a_separate_connection(probe: StoreProbe) -> None:
    worker = await probe.worker()
    async with probe.store.beside() as workers:
        assert await workers.beat(worker)
        probe.clock.advance(3)
        assert await workers.beat(worker)
    assert (await probe.worker_row(worker))["beat_at"] == START + timedelta(seconds=3)
    assert worker_of((await probe.claimed(worker)).token) == worker


@pytest.mark.requirement("F3")
@pytest.mark.parametrize(
    ("ours", "theirs"), [(None, ["t"]), (["t"], None), (None, None), (["a", "b"], ["b", "c"])]
)
async def test_only_one_worker_of_a_namespace_reserves_suspects(
    probe: StoreProbe, ours: list[str] | None, theirs: list[str] | None
) -> None:
    first, second = (
        probe.store.serving(ours).workers,
        probe.store.within("t").serving(theirs).workers,
    )
    one = await first.register("host:1", 30.0, 10, [])
    two = await second.register("host:2", 30.0, 10, [])
    assert await first.reserve_suspects(one)
    assert not await second.reserve_suspects(two)
    await first.release_suspects(one)
    assert await second.reserve_suspects(two)
    assert not await first.reserve_suspects(one)


@pytest.mark.requirement("F3")
async def test_workers_of_different_namespaces_reserve_suspects_separately(
    probe: StoreProbe,
) -> None:
    for served in (["a"], ["b", "c"], ["default"]):
        workers = probe.store.serving(served).workers
        assert await workers.reserve_suspects(await workers.register("host:1", 30.0, 10, []))


@pytest.mark.requirement("F3")
async def test_a_worker_of_an_older_version_reserves_suspects_for_its_own_namespace(
    probe: StoreProbe,
) -> None:
    old, new = await probe.worker(), await probe.worker()
    await probe.sql(f"update duly.workers set namespaces = null where id = {old}")
    assert await probe.store.workers.reserve_suspects(old)
    assert not await probe.store.workers.reserve_suspects(new)
    others = probe.store.within("others").workers
    assert await others.reserve_suspects(await others.register("host:1", 30.0, 10, []))
