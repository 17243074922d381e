"""Handlers' transactions on PostgreSQL: they end with the lease of their worker, and not before."""

import pytest

from duly.domain.deliveries.outcomes import Verdict
from duly.errors import StoreUnavailable
from duly.stores.postgres.database import LOCK_SECONDS
from tests.stores.books import START, Books, settlement

pytestmark = pytest.mark.requirement("D7")


@pytest.fixture
def books_url(emptied_postgres_url: str) -> str:
    return emptied_postgres_url


async def test_burying_a_worker_ends_its_handlers_transactions_and_nobody_elses(
    books: Books, elsewhere: Books
) -> None:
    lost, kept = await books.worker(), await elsewhere.worker()
    of_lost, of_kept = await books.claimed(lost), await books.claimed(kept)
    losing = await books.store.begin(lost)
    keeping = await elsewhere.store.begin(kept)
    await losing.execute("select 1")
    books.clock.advance(3600)
    assert await elsewhere.store.workers.beat(kept)
    assert await elsewhere.store.workers.declare_dead(worker=kept) == [lost]
    with pytest.raises(StoreUnavailable):
        await losing.execute("select 1")
    with pytest.raises(StoreUnavailable):
        await losing.complete(settlement(of_lost, Verdict.COMPLETED, START))
    await keeping.execute("select 1")
    await keeping.complete(settlement(of_kept, Verdict.COMPLETED, START))
    assert (await books.ledger(of_lost.id))["state"] == "pending"
    assert (await books.ledger(of_kept.id))["state"] == "completed"


async def test_only_handlers_wait_for_locks_with_a_limit(books: Books) -> None:
    worker = await books.worker()
    handlers = await books.store.begin(worker)
    async with books.store.transaction() as callers:
        for transaction, name, limit in (
            (handlers, f"duly worker {worker}", f"{LOCK_SECONDS:g}s"),
            (callers, "duly", "0"),
        ):
            shown = "select current_setting('application_name'), current_setting('lock_timeout')"
            assert await transaction.fetch(shown) == [(name, limit)]
    await handlers.roll_back()
    # The connection goes to others, as it was.
    async with books.store.transaction() as callers:
        assert await callers.fetch("show lock_timeout") == [("0",)]
        assert await callers.fetch("show application_name") == [("duly",)]


async def test_a_transaction_of_the_store_that_stands_still_is_ended_by_the_server(
    books: Books,
) -> None:
    database = books.store.database
    for channel in ("any", "plan", "claim", "settle"):
        async with database.together(channel) as session:  # type: ignore[arg-type]
            connection = session.connection  # type: ignore[attr-defined]
            assert await connection.fetchval("show idle_in_transaction_session_timeout") == "15s"
    async with books.store.transaction() as callers:
        assert await callers.fetch("show idle_in_transaction_session_timeout") == [("0",)]
