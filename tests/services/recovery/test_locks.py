"""Recovery while others have locked the same dead letters, and after their stream was pruned."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

import duly
from duly import App
from duly.domain.recovery import DeadLetter, Decision
from duly.ports import Store
from duly.records.recovery import Disposition
from duly.stores.deliveries.maintenance import BEGINNING
from duly.testing import VirtualClock, run_until_idle
from tests.services.recovery.test_policies import DAY, HOUR, die, policy
from tests.services.work import NAME, Work, blocked

DIGEST = "policies"
WAITING = """select count(*) from pg_locks
where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))"""


async def without_stream(work: Work, clock: VirtualClock) -> str:
    """A dead letter whose idle stream was pruned."""
    (id, *_) = await blocked(work)
    await work.app.streams.release(NAME)
    await run_until_idle(work.app)
    clock.advance(HOUR)
    await work.app.store.maintenance.prune(timedelta(0), 30 * DAY, BEGINNING, 100)
    with pytest.raises(duly.NotFound):
        await work.app.streams.get(NAME)
    return id


@pytest.mark.requirement("L2")
class TestAPrunedStream:
    async def test_its_dead_letters_can_be_given_up(self, work: Work, clock: VirtualClock) -> None:
        id = await without_stream(work, clock)
        assert (await work.app.dead_letters.give_up(id, "no use")).disposition == "given_up"

    async def test_a_policy_gives_them_up(self, work: Work, clock: VirtualClock) -> None:
        id = await without_stream(work, clock)
        await policy(work.app, tries=0, then="fail")
        async with asyncio.timeout(20):
            await run_until_idle(work.app)
        assert (await work.app.get(id)).disposition == "given_up"


class Somebody:
    """Another transaction on PostgreSQL."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def locks(self, table: str, **row: str) -> None:
        """Lock a row, or fail if another transaction has it locked."""
        ((column, value),) = row.items()
        found = await self._connection.fetch(
            f"select from duly.{table} where {column} = $1 for update nowait", value
        )
        assert len(found) == 1

    async def is_waited_for(self, task: asyncio.Task[Any]) -> None:
        """Return when another transaction waits for a lock, or the task is done without it."""
        async with asyncio.timeout(20):
            while not task.done() and not await self._connection.fetchval(WAITING):
                pass

    async def ends(self) -> None:
        """End the transaction, which unlocks its rows."""
        await self._connection.execute("rollback")


@pytest.fixture
async def shared(postgres_url: str, clock: VirtualClock) -> AsyncIterator[Work]:
    """An app on PostgreSQL, where several transactions run at the same moment."""
    async with App(postgres_url, clock=clock, environment={}) as app:
        yield Work(app)


@pytest.fixture
async def somebody(postgres_url: str, shared: Work) -> AsyncIterator[Somebody]:
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("begin")
    yield Somebody(connection)
    await connection.close()


async def undecided(store: Store) -> dict[str, DeadLetter]:
    """The dead letters to which no policies were applied."""
    found = [
        each
        for number, name in (await store.recovery.undecided_targets(9)).items()
        for each in await store.recovery.undecided(number, name, 9)
    ]
    return {each.id: each for each in found}


def recovering(letter: DeadLetter) -> Decision:
    return Decision(letter, Disposition.RECOVERING, letter.dead_at + HOUR)


@pytest.mark.requirement("L2")
@pytest.mark.parametrize("stream", [None, NAME])
async def test_a_retry_of_a_delivery_waits_for_who_has_locked_it(
    shared: Work, somebody: Somebody, stream: str | None
) -> None:
    (id,) = await die(shared, "a", stream=stream)
    await somebody.locks("deliveries", id=id)
    task = asyncio.create_task(shared.app.deliveries.retry(id))
    await somebody.is_waited_for(task)
    await somebody.ends()
    assert (await task).state == "pending"


@pytest.mark.requirement("L2")
@pytest.mark.parametrize("verb", ["retry", "edit", "discard", "hold", "give_up", "release"])
@pytest.mark.parametrize("stream", [None, NAME])
async def test_an_operator_waits_for_who_has_locked_a_dead_letter(
    shared: Work, somebody: Somebody, verb: str, stream: str | None
) -> None:
    letters = shared.app.dead_letters
    (id,) = await die(shared, "a", stream=stream)
    if verb == "release":
        await letters.hold(id, "wait")
    await somebody.locks("deliveries", id=id)
    given = {"retry": [], "release": [], "edit": ["b"]}.get(verb, ["a note"])
    task = asyncio.create_task(getattr(letters, verb)(id, *given))
    await somebody.is_waited_for(task)
    await somebody.ends()
    await task


@pytest.mark.requirement("L1")
class TestSweeps:
    async def test_streams_are_locked_before_dead_letters(
        self, shared: Work, somebody: Somebody
    ) -> None:
        """Or a sweep and an operator's retry wait for each other."""
        one, two = await die(shared, "a", "b", stream=NAME, on_failure="release")
        store = shared.app.store
        await store.recovery.forget(DIGEST, 100)
        letters = await undecided(store)
        await somebody.locks("streams", name=NAME)
        end = Decision(letters[two], Disposition.GIVEN_UP, note="used up")
        task = asyncio.create_task(store.recovery.decide(DIGEST, [recovering(letters[one]), end]))
        await somebody.is_waited_for(task)
        await somebody.locks("deliveries", id=one)
        await somebody.ends()
        assert await task == 1

    async def test_what_somebody_has_locked_is_decided_later(
        self, shared: Work, somebody: Somebody
    ) -> None:
        one, two = await die(shared, "a", "b")
        store = shared.app.store
        await store.recovery.forget(DIGEST, 100)
        letters = await undecided(store)
        await somebody.locks("deliveries", id=one)
        async with asyncio.timeout(20):
            await store.recovery.decide(DIGEST, [recovering(each) for each in letters.values()])
        assert list(await undecided(store)) == [one]
        assert (await shared.app.get(two)).disposition == "recovering"

    async def test_other_policies_are_applied_to_what_somebody_has_locked_too(
        self, shared: Work, somebody: Somebody
    ) -> None:
        await policy(shared.app, after="10h")
        one, two = await die(shared, "a", "b")
        store = shared.app.store
        await somebody.locks("deliveries", id=one)
        assert await store.recovery.forget(DIGEST, 100), "one is left"
        assert list(await undecided(store)) == [two]
        await somebody.ends()
        assert not await store.recovery.forget(DIGEST, 100)
        assert sorted(await undecided(store)) == sorted([one, two])
