"""Handlers' transactions on PostgreSQL end with the lease of their worker, and not before."""

import pytest

from duly.domain.deliveries.outcomes import Verdict
from duly.errors import StoreUnavailable
from duly.stores.postgres.database import LOCK_SECONDS
from tests.stores.store_probe import START, StoreProbe, settlement

pytestmark = pytest.mark.requirement("D7")


@pytest.fixture
def store_url(emptied_postgres_url: str) -> str:
    return emptied_postgres_url


async def test_declaring_a_worker_dead_ends_only_its_handlers_transactions(
    probe: StoreProbe, other_process: StoreProbe
) -> None:
    lost, kept = await probe.worker(), await other_process.worker()
    of_lost, of_kept = await probe.claimed(lost), await probe.claimed(kept)
    losing = await probe.store.begin(lost)
    keeping = await other_process.store.begin(kept)
    await losing.execute("select 1")
    probe.clock.advance(3600)
    assert await other_process.store.workers.beat(kept)
    assert await other_process.store.workers.declare_dead(worker=kept) == [lost]
    with pytest.raises(StoreUnavailable):
        await losing.execute("select 1")
    with pytest.raises(StoreUnavailable):
        await losing.complete(settlement(of_lost, Verdict.COMPLETED, START))
    await keeping.execute("select 1")
    await keeping.complete(settlement(of_kept, Verdict.COMPLETED, START))
    assert (await probe.ledger(of_lost.id))["state"] == "pending"
    assert (await probe.ledger(of_kept.id))["state"] == "completed"


async def test_only_handlers_transactions_have_a_lock_timeout(probe: StoreProbe) -> None:
    worker = await probe.worker()
    handlers = await probe.store.begin(worker)
    async with probe.store.transaction() as callers:
        for transaction, name, limit in (
            (handlers, f"duly worker {worker}", f"{LOCK_SECONDS:g}s"),
            (callers, "duly", "0"),
        ):
            shown = "select current_setting('application_name'), current_setting('lock_timeout')"
            assert await transaction.fetch(shown) == [(name, limit)]
    await handlers.roll_back()
    # The connection is used again by others, with its original settings.
    async with probe.store.transaction() as callers:
        assert await callers.fetch("show lock_timeout") == [("0",)]
        assert await callers.fetch("show application_name") == [("duly",)]


async def test_the_server_ends_an_idle_transaction_of_the_store(
    probe: StoreProbe,
) -> None:
    database = probe.store.database
    for channel in ("any", "plan", "claim", "settle"):
        async with database.together(channel) as session:  # type: ignore[arg-type]
            connection = session.connection  # type: ignore[attr-defined]
            assert await connection.fetchval("show idle_in_transaction_session_timeout") == "15s"
    async with probe.store.transaction() as callers:
        assert await callers.fetch("show idle_in_transaction_session_timeout") == [("0",)]
