"""Unique keys in a store: many callers at once, locked keys, and what the sweep repairs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from duly.domain.deliveries.delivery import PreparedDelivery
from duly.domain.deliveries.outcomes import Verdict
from duly.domain.streams.stream import NEVER
from duly.errors import Conflict
from duly.failpoints import FailpointRaised, arm
from duly.ports import Cause, Retry
from duly.records.delivery import Accepted
from duly.stores.deliveries.maintenance import BEGINNING
from duly.stores.deliveries.revived import retry_some
from tests.stores.store_probe import START, StoreProbe, settlement

pytestmark = pytest.mark.requirement("P7")
PLENTY_SECONDS = 30


def wanted(
    probe: StoreProbe, key: str = "k", policy: str = "keep", **more: Any
) -> PreparedDelivery:
    return probe.request(unique_key=key, on_duplicate=policy, **more)


async def accept(probe: StoreProbe, key: str = "k", policy: str = "keep", **more: Any) -> Accepted:
    (answer,) = await probe.accept(wanted(probe, key, policy, **more))
    assert isinstance(answer, Accepted)
    return answer


async def test_of_many_callers_at_once_one_is_accepted(
    probe: StoreProbe, other_process: StoreProbe
) -> None:
    await probe.target()
    other_process._made = 1000
    callers = [probe, other_process] * 20
    async with asyncio.timeout(PLENTY_SECONDS):
        answers = await asyncio.gather(*(accept(each, policy="replace") for each in callers))
    assert len({each.id for each in answers}) == 1
    assert sum(not each.known for each in answers) == 1
    assert (await probe.ledger(answers[0].id))["replaced"] == 39
    assert await probe.count("deliveries") == await probe.count("agenda") == 1


async def test_callers_with_many_keys_in_different_orders_do_not_wait_for_each_other(
    probe: StoreProbe, other_process: StoreProbe
) -> None:
    await probe.target()
    other_process._made = 10_000
    keys = [f"k{n}" for n in range(60)]

    async def deliver_all(caller: StoreProbe, ordered: list[str]) -> None:
        async def chunks() -> AsyncIterator[list[PreparedDelivery]]:
            for start in range(0, len(ordered), 7):
                yield [wanted(caller, key, "replace") for key in ordered[start : start + 7]]

        await caller.store.deliveries.accept_all(chunks())

    async with asyncio.timeout(PLENTY_SECONDS):
        for _ in range(5):
            await asyncio.gather(
                deliver_all(probe, keys),
                deliver_all(other_process, keys[::-1]),
                deliver_all(probe, keys[30:] + keys[:30]),
                other_process.accept(*(wanted(other_process, key) for key in keys[::-1])),
            )
    assert await probe.count("deliveries") == len(keys)


async def test_within_one_call_each_is_accepted_after_those_before_it(probe: StoreProbe) -> None:
    answers = await probe.accept(
        wanted(probe, payload=b"1", after=50.0),
        probe.request(payload=b"2"),
        wanted(probe, "other", payload=b"3"),
        wanted(probe, policy="postpone", payload=b"4", after=90.0, latest=70.0),
        wanted(probe, policy="replace", payload=b"5", after=5.0),
        wanted(probe, payload=b"6"),
    )
    first, plain, other, *rest = [each for each in answers if isinstance(each, Accepted)]
    assert {each.id for each in rest} == {first.id}
    assert [each.known for each in answers] == [False, False, False, True, True, True]  # type: ignore[union-attr]
    assert len({first.id, plain.id, other.id}) == 3
    found = await probe.ledger(first.id)
    assert (found["payload"], found["replaced"]) == (b"5", 2)
    assert found["due_at"] == START + timedelta(seconds=70)
    assert (await probe.ledger(other.id))["payload"] == b"3"


async def test_a_key_is_unique_for_each_target_and_apart_from_plain_keys(probe: StoreProbe) -> None:
    first = await accept(probe)
    second = await accept(probe, target="other")
    plain = await probe.deliver(key="k")
    assert len({first.id, second.id, plain}) == 3


async def test_replacing_one_that_failed_gives_it_all_its_attempts(probe: StoreProbe) -> None:
    claimed = await probe.claimed(unique_key="k", on_duplicate="keep")
    await probe.settle(settlement(claimed, Verdict.RETRY, probe.clock.now()))
    await probe.sql(
        "insert into duly.steps (delivery, name, attempt, done_at) "
        f"select id, 'one', 1, due_at from duly.deliveries where id = '{claimed.id}'"
    )
    lane = await probe.lane(claimed.id)
    assert lane is not None
    probe.clock.advance(5)
    await accept(probe, policy="replace", payload=b"7", priority=8)
    found, after = await probe.ledger(claimed.id), await probe.lane(claimed.id)
    assert (found["attempt"], found["error"], found["payload"]) == (0, None, b"7")
    assert after == lane | {"priority": 8}
    assert await probe.count("steps") == 0
    assert [row["outcome"] for row in await probe.history(claimed.id)] == ["retry", "replaced"]


async def test_a_repeated_request_with_the_same_id_changes_nothing(probe: StoreProbe) -> None:
    request = wanted(probe, policy="replace", payload=b"1", again=True)
    await probe.accept(request)
    await accept(probe, policy="replace", payload=b"2")
    (again,) = await probe.accept(request)
    assert isinstance(again, Accepted)
    assert (again.id, again.known) == (request.id, False)
    assert (await probe.ledger(request.id))["payload"] == b"2"
    other = wanted(probe, "other", id=request.id, again=True)
    assert isinstance((await probe.accept(other))[0], Conflict)


async def test_a_policy_lets_a_dead_letter_end_whose_key_another_has(probe: StoreProbe) -> None:
    dead = await probe.finished(Verdict.DEAD, unique_key="k", on_duplicate="keep")
    probe.clock.advance(5)
    waits = await accept(probe)
    sweeps = probe.store.recovery._sweeps
    async with probe.store.database.together() as session:
        await sweeps.revive(session, None, {dead: 1}, Cause("recovery", None))
    found = await probe.ledger(dead)
    assert (found["state"], found["reason"], found["dead_at"]) == ("cancelled", "superseded", None)
    assert waits.id in found["error"]
    history = (await probe.history(dead))[-1]
    assert (history["outcome"], history["reason"]) == ("discarded", "superseded")


async def test_of_dead_letters_with_the_same_key_the_newest_is_retried(probe: StoreProbe) -> None:
    ids = []
    for _ in range(3):
        ids.append(await probe.finished(Verdict.DEAD, unique_key="k", on_duplicate="keep"))
        probe.clock.advance(1)
    async with probe.store.database.together() as session:
        moved, taken = await retry_some(session, "default", ids, Retry())
    assert (moved, taken) == ({ids[2]}, {ids[0]: ids[2], ids[1]: ids[2]})


async def test_a_worker_that_comes_back_hands_back_at_most_one(probe: StoreProbe) -> None:
    claimed = await probe.claimed(unique_key="k", on_duplicate="keep")
    probe.clock.advance(1)
    newer = await accept(probe)
    await probe.store.workers.undo_crashes(claimed.token >> 32, 2)
    assert (await probe.ledger(claimed.id))["reason"] == "superseded"
    lane = await probe.lane(newer.id)
    assert lane is not None
    assert lane["due_at"] == newer.due_at


async def test_nothing_is_half_written_if_the_caller_fails(probe: StoreProbe) -> None:
    arm("deliver.middle=raise")
    with pytest.raises(FailpointRaised):
        await accept(probe)
    arm("")
    tables = ("deliveries", "agenda", "unique_keys")
    assert [await probe.count(each) for each in tables] == [0, 0, 0]
    claimed = await probe.claimed(unique_key="k", on_duplicate="keep")
    newer = await accept(probe)
    arm("settle.middle=raise")
    with pytest.raises(FailpointRaised):
        await probe.settle(settlement(claimed, Verdict.RETRY, probe.clock.now()))
    lane = await probe.lane(newer.id)
    assert lane is not None
    assert lane["due_at"] == NEVER
    held = await probe.lane(claimed.id)
    assert held is not None
    assert held["token"] == claimed.token


@asynccontextmanager
async def locked(probe: StoreProbe, request: PreparedDelivery) -> AsyncIterator[Accepted]:
    """A caller's transaction that has accepted the request and is still open."""
    async with probe.store.transaction() as transaction:
        yield await probe.store.outbox.enlist(transaction, request)


@pytest.mark.parametrize("store_url", ["emptied_postgres"], indirect=True)
@pytest.mark.parametrize("verdict", [Verdict.COMPLETED, Verdict.RETRY])
async def test_a_settlement_does_not_wait_for_a_callers_transaction(
    probe: StoreProbe, other_process: StoreProbe, verdict: Verdict
) -> None:
    claimed = await probe.claimed(unique_key="k", on_duplicate="keep")
    probe.clock.advance(1)
    async with asyncio.timeout(PLENTY_SECONDS):
        async with locked(other_process, wanted(probe, payload=b"2")) as newer:
            assert await probe.settle(settlement(claimed, verdict, probe.clock.now()))
            assert await probe.store.unique_keys.tidy_unsettled(9) == 0
        lane = await probe.lane(newer.id)
        assert lane is not None
        assert lane["due_at"] == NEVER
        assert await probe.store.unique_keys.tidy_unsettled(9) == 1
    lane = await probe.lane(newer.id)
    assert lane is not None
    assert lane["due_at"] == newer.due_at
    state = "completed" if verdict is Verdict.COMPLETED else "cancelled"
    assert (await probe.ledger(claimed.id))["state"] == state
    assert await probe.count("unsettled_keys") == 0


@pytest.mark.parametrize("store_url", ["emptied_postgres"], indirect=True)
@pytest.mark.parametrize(("policy", "payload"), [("keep", b"1"), ("replace", b"2")])
async def test_what_a_caller_relies_on_starts_after_its_commit(
    probe: StoreProbe, other_process: StoreProbe, policy: str, payload: bytes
) -> None:
    worker, first = await probe.worker(), await accept(probe, payload=b"1")
    async with asyncio.timeout(PLENTY_SECONDS):
        async with locked(other_process, wanted(probe, policy=policy, payload=b"2")) as answer:
            assert answer.id == first.id
            assert await probe.claim(worker) == []
        (claimed,) = await probe.claim(worker)
    assert claimed.payload == payload


async def test_the_sweep_lets_continue_what_waits_for_nothing(probe: StoreProbe) -> None:
    claimed = await probe.claimed(unique_key="k", on_duplicate="keep")
    newer = await accept(probe)
    await probe.sql(f"delete from duly.agenda where delivery = {probe.agenda_id(claimed.id)}")
    await probe.store.maintenance.sweep(BEGINNING, 100)
    lane = await probe.lane(newer.id)
    assert lane is not None
    assert lane["due_at"] == newer.due_at
    await probe.store.deliveries.cancel(newer.id)
    await probe.store.maintenance.forget("default", BEGINNING, 100)
    assert await probe.count("unique_keys") == 0
