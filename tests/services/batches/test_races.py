"""Members that are added while a batch is closed, and batches in the other features of a store."""

from __future__ import annotations

import asyncio
from contextvars import Context
from datetime import timedelta

import pytest

import duly
from duly import App, Conflict
from duly.records.batch import Batch
from duly.testing import VirtualClock, run_until_idle
from tests.services.batches.test_batches import NOWHERE, THEN, Completions
from tests.services.drivers import by_asyncpg, by_psycopg
from tests.services.transfers import export_lines, import_lines
from tests.services.work import Work

pytestmark = pytest.mark.requirement("P8")


@pytest.fixture
def completions(work: Work) -> Completions:
    return Completions(work)


async def test_closing_waits_for_a_transaction_that_adds_a_member(
    work: Work, completions: Completions
) -> None:
    app = work.app
    batch = await app.batches.open(THEN)
    closing: asyncio.Task[Batch] | None = None
    async with app.transaction() as tx:
        await app.deliver("work", 1, batch=batch.id, connection=tx)
        # Another caller: in its own context it is not in this transaction.
        closing = asyncio.create_task(app.batches.close(batch.id), context=Context())
        done, _ = await asyncio.wait([closing], timeout=0.2)
        assert not done, "a member may be added to a closed batch"
    assert (await closing).members == 1
    with pytest.raises(Conflict, match="closed"):
        await app.deliver("work", 2, batch=batch.id)
    await run_until_idle(app)
    assert completions.counts() == [(1, 1, 0, 0)]


async def test_a_member_of_a_transaction_that_is_rolled_back_is_none(
    work: Work, completions: Completions
) -> None:
    app = work.app
    batch = await app.batches.open(THEN)

    async def add() -> None:
        async with app.transaction() as tx:
            await app.deliver("work", 1, batch=batch.id, connection=tx)
            raise RuntimeError("back")

    with pytest.raises(RuntimeError, match="back"):
        await add()
    assert (await app.batches.close(batch.id)).members == 0


async def test_many_callers_add_while_others_close(work: Work, completions: Completions) -> None:
    """Each member is counted, or refused: none is accepted after the batch is closed."""
    app = work.app
    accepted = refused = 0
    for _ in range(5):
        batch = await app.batches.open(THEN)
        adding = [app.deliver("work", each, batch=batch.id) for each in range(30)]
        adding += [app.deliver_many([("work", 1)] * 2, batch=batch.id) for _ in range(5)]  # type: ignore[misc]
        first = await adding.pop(0)
        answers = [first] + await asyncio.gather(
            *adding[:20], app.batches.close(batch.id), *adding[20:], return_exceptions=True
        )
        assert {type(each) for each in answers if isinstance(each, Exception)} <= {Conflict}
        kept = sum(
            len(each) if isinstance(each, list) else 1
            for each in answers
            if not isinstance(each, Exception | Batch)
        )
        assert (await app.batches.get(batch.id)).members == kept
        accepted, refused = accepted + kept, refused + 40 - kept
    await run_until_idle(app)
    assert sum(members for members, *_ in completions.counts()) == accepted
    assert min(accepted, refused) > 0


async def test_drivers_add_members_in_their_transactions(postgres_url: str) -> None:
    async with App(postgres_url, environment={}) as app:
        app.expect("work", "ready")
        batch = await app.batches.open("ready")
        closed = await app.batches.open("ready")
        await app.batches.close(closed.id)
        await app.deliver("work", 1, key="outside")
        for driver in (by_asyncpg, by_psycopg):
            async with driver(postgres_url) as (given, _):
                await app.deliver("work", 1, batch=batch.id, connection=given)
                with pytest.raises(Conflict, match="closed"):
                    await app.deliver("work", 1, batch=closed.id, connection=given)
                with pytest.raises(duly.NotFound, match="no batch"):
                    await app.deliver("work", 1, batch=NOWHERE, connection=given)
                with pytest.raises(Conflict, match="not in batch"):
                    await app.deliver("work", 1, key="outside", batch=batch.id, connection=given)
        assert (await app.batches.get(batch.id)).members == 2
        assert (await app.batches.get(closed.id)).members == 0


async def test_members_are_not_pruned_before_their_batch_is_finished(
    work: Work, completions: Completions, clock: VirtualClock
) -> None:
    app = work.app
    async with app.batch(then=THEN) as batch:
        await batch.deliver("work", 1)
        later = await batch.deliver("work", 2, after=90 * 86_400)
    await run_until_idle(app)
    clock.advance(60 * 86_400)
    await prune(app)
    assert (await app.batches.get(batch.id)).completed == 1
    await app.cancel(later.id)
    await run_until_idle(app)
    assert completions.counts() == [(2, 1, 0, 1)]
    await prune(app)
    # The cancelled member is younger, so the batch stays too.
    assert len(await app.list(batch=batch.id)) == 1
    assert (await app.batches.get(batch.id)).state == "finished"
    clock.advance(60 * 86_400)
    await prune(app)
    assert await app.batches.list() == []
    assert await app.list() == []


async def prune(app: App) -> None:
    """Remove what is older than 30 days, as the workers do."""
    month = timedelta(days=30)
    await app.store.maintenance.prune(month, month, "00000000-0000-0000-0000-000000000000", 1000)
    await app.store.batches.prune(month, 1000)


async def test_an_export_has_the_members_without_their_batch(
    work: Work, completions: Completions, other: App
) -> None:
    async with work.app.batch(then=THEN) as batch:
        member = await batch.deliver("work", 1, after=60)
    lines = await export_lines(work.app)
    other.expect("work")
    await import_lines(other, lines)
    found = await other.get(member.id)
    assert (found.state, found.batch) == ("pending", None)
    assert await other.batches.list() == []


async def test_a_namespace_that_is_forgotten_has_no_batches(work: Work) -> None:
    work.app.expect("ready")
    await work.app.batches.open(THEN)
    store = work.app.store
    await store.maintenance.forget(store.namespace, "00000000-0000-0000-0000-000000000000", 1000)
    assert await work.app.batches.list() == []
