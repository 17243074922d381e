"""Streams and races, sweeping, pruning, forgetting, and the operations of endpoints."""

import asyncio
from contextvars import Context
from datetime import timedelta

import pytest

from duly.domain.deliveries.outcomes import Verdict
from duly.domain.streams import operations
from duly.ports import BulkCursor, Retry, Swept
from duly.records.dead_letter import DeadLetterFilter
from duly.stores.postgres.database import Postgres
from duly.stores.streams import heads
from tests.stores.deliveries.test_maintenance import prune, sweep
from tests.stores.store_probe import START, StoreProbe
from tests.stores.stream_probe import NAME, StreamProbe

DAY = timedelta(days=1)


@pytest.fixture
def streams(probe: StoreProbe) -> StreamProbe:
    return StreamProbe(probe)


class TestConcurrency:
    @pytest.mark.requirement("F7", "D7")
    @pytest.mark.parametrize("verdict", [Verdict.COMPLETED, Verdict.DEAD, Verdict.RETRY])
    async def test_a_pause_does_not_make_a_settlement_fail(
        self, streams: StreamProbe, other_process: StoreProbe, verdict: Verdict
    ) -> None:
        ids = await streams.add(2)
        claimed = await streams.claim()
        assert claimed is not None
        async with other_process.store.database.together() as session:
            stream = await heads.locked(session, "default", NAME)
            assert stream is not None
            settling = asyncio.create_task(streams.settle(claimed, verdict), context=Context())
            await until_a_lock_is_awaited(streams.probe)
            await heads.write(session, operations.pause(stream, START, "now"), START)
        assert await settling
        lane = await streams.lane()
        assert lane is not None
        assert lane["token"] is None
        assert lane["halted"] == ("blocked" if verdict is Verdict.DEAD else "paused")
        assert lane["head"] == (ids[1] if verdict is Verdict.COMPLETED else ids[0])

    @pytest.mark.requirement("F5")
    async def test_adding_waits_while_an_operator_removes_the_last_head(
        self, streams: StreamProbe, other_process: StoreProbe
    ) -> None:
        (first,) = await streams.add()
        async with other_process.store.database.together() as session:
            stream = await heads.locked(session, "default", NAME)
            assert stream is not None
            adding = asyncio.create_task(streams.add(), context=Context())
            await until_a_lock_is_awaited(streams.probe)
            change = operations.dead_letter_head(stream, None)
            assert await heads.write(session, change, START)
        (second,) = await adding
        assert await streams.run_head() == second
        assert (await streams.probe.ledger(first))["state"] == "dead"

    @pytest.mark.requirement("F5")
    async def test_a_claimed_delivery_is_only_asked_to_cancel(self, streams: StreamProbe) -> None:
        (id,) = await streams.add()
        found, cancelled = await asyncio.gather(
            streams.claim(), streams.probe.store.deliveries.cancel(id)
        )
        assert found is None or found.id == id
        assert cancelled.state == ("processing" if found else "cancelled")
        assert (cancelled.cancel_asked_at is not None) == (found is not None)


async def until_a_lock_is_awaited(probe: StoreProbe) -> None:
    """Return when a session waits for a lock; on SQLite writers wait by themselves."""
    waiting = (
        "select count(*) as size from pg_stat_activity"
        " where wait_event_type = 'Lock' and datname = current_database()"
    )
    if isinstance(probe.store.database, Postgres):
        async with asyncio.timeout(30):
            while not (await probe.sql(waiting))[0]["size"]:
                pass


@pytest.mark.requirement("D15", "F5")
class TestSweeping:
    async def lost(self, streams: StreamProbe) -> list[str]:
        """A stream that lost its lane after its first delivery was completed."""
        ids = await streams.add(3, priority=5, due_at=START - DAY)
        await streams.run_head()
        await streams.probe.sql("delete from duly.agenda")
        return ids

    async def test_a_stream_without_a_lane_gets_one(self, streams: StreamProbe) -> None:
        ids = await self.lost(streams)
        await streams.add(1, stream="fine")
        assert await sweep(streams.probe) == Swept(without_lane=1)
        lane = await streams.lane()
        assert lane is not None
        assert (lane["head"], lane["position"], lane["due_at"]) == (ids[1], 2, START - DAY)
        assert (lane["token"], lane["halted"], lane["schedule"]) == (None, None, None)
        assert await sweep(streams.probe) == Swept()

    async def test_a_paused_stream_stays_paused(self, streams: StreamProbe) -> None:
        await self.lost(streams)
        await streams.service.pause(NAME)
        assert await sweep(streams.probe, batch=1) == Swept(without_lane=1)
        assert (await streams.service.get(NAME)).state == "paused"
        assert await streams.claim() is None

    async def test_a_stream_goes_back_to_a_delivery_that_it_passed(
        self, streams: StreamProbe
    ) -> None:
        ids = await streams.add(4)
        await streams.run_head()
        await streams.probe.sql(
            f"update duly.agenda set position = 3, delivery = {streams.probe.agenda_id(ids[2])}"
        )
        assert await sweep(streams.probe) == Swept(without_lane=1)
        for id in (ids[2], ids[1], ids[3]):
            assert await streams.run_head() == id

    async def test_consistent_streams_are_not_changed(self, streams: StreamProbe) -> None:
        await streams.add(2, stream="blocked")
        await streams.run_head(Verdict.DEAD)
        await streams.add(2, stream="paused")
        await streams.service.pause("paused")
        await streams.add(2, stream="held")
        await streams.claim()
        await streams.add(1, stream="retried", on_failure="release")
        await streams.run_head(Verdict.RETRY)
        lanes = await streams.probe.sql("select * from duly.agenda order by lane")
        assert await sweep(streams.probe, batch=2) == Swept()
        assert await streams.probe.sql("select * from duly.agenda order by lane") == lanes


class TestPruning:
    async def names(self, streams: StreamProbe) -> set[str]:
        return {row["name"] for row in await streams.probe.sql("select name from duly.streams")}

    async def test_idle_streams_are_pruned_when_they_have_no_deliveries(
        self, streams: StreamProbe
    ) -> None:
        for name in ("done", "configured", "paused", "blocked", "used"):
            await streams.add(1, stream=name)
            await streams.run_head(Verdict.DEAD if name == "blocked" else Verdict.COMPLETED)
            await streams.lane_is_removed()
        await streams.service.configure("configured", on_failure="release")
        await streams.service.pause("paused")
        await streams.add(1, stream="used", due_at=START + 90 * DAY)
        streams.probe.clock.advance(2 * DAY)
        await prune(streams.probe, 3 * DAY, 5 * DAY)
        assert len(await self.names(streams)) == 5
        streams.probe.clock.advance(2 * DAY)
        await prune(streams.probe, 3 * DAY, 5 * DAY, batch=2)
        assert await self.names(streams) == {"configured", "paused", "blocked", "used"}

    @pytest.mark.requirement("C10")
    async def test_a_delivery_that_blocks_a_stream_is_never_pruned(
        self, streams: StreamProbe
    ) -> None:
        ids = await streams.add(2)
        await streams.run_head(Verdict.DEAD)
        streams.probe.clock.advance(30 * DAY)
        assert await prune(streams.probe, DAY, DAY) == 0
        await streams.service.release(NAME)
        assert await prune(streams.probe, DAY, DAY) == 1
        assert await streams.run_head() == ids[1]

    async def test_retried_deliveries_of_a_pruned_stream_get_new_positions(
        self, streams: StreamProbe
    ) -> None:
        ids = await streams.add(3, on_failure="release")
        for verdict in (Verdict.COMPLETED, Verdict.DEAD, Verdict.DEAD):
            await streams.run_head(verdict)
        await streams.lane_is_removed()
        streams.probe.clock.advance(30 * DAY)
        await prune(streams.probe, DAY, 90 * DAY)
        assert await self.names(streams) == set()
        now = streams.probe.clock.now()
        ids += await streams.add(2, due_at=now)
        for id in ids[1:3]:
            await streams.probe.store.deliveries.retry(id)
        places = {id: (await streams.probe.ledger(id))["position"] for id in ids[1:]}
        assert places == {ids[1]: 3, ids[2]: 4, ids[3]: 1, ids[4]: 2}, "position 2 was in use"
        ids += await streams.add(1, due_at=now)
        for id in (ids[3], ids[4], ids[1], ids[2], ids[5]):
            assert await streams.run_head() == id
        assert await streams.lane_is_removed()


async def test_forgetting_a_namespace_deletes_its_streams(streams: StreamProbe) -> None:
    await streams.add(3)
    await streams.run_head(Verdict.DEAD)
    await streams.add(1, stream="x")
    after: str | None = "00000000-0000-0000-0000-000000000000"
    while after is not None:
        after = await streams.probe.store.maintenance.forget("default", after, 2)
    for table in ("deliveries", "agenda", "attempts", "streams"):
        assert await streams.probe.count(table) == 0, table


@pytest.mark.requirement("C8", "F5")
class TestEndpoints:
    async def test_recovering_puts_dead_letters_back_at_their_positions(
        self, streams: StreamProbe
    ) -> None:
        ids = await streams.add(1, on_failure="release")
        ids += await streams.add(3)
        await streams.run_head(Verdict.DEAD)
        await streams.run_head(Verdict.DEAD)
        free = await streams.probe.finished(Verdict.DEAD)
        assert await self.recover(streams, 9) == [1, 2]
        streams.probe.clock.advance(1)
        await streams.probe.store.deliveries.cancel(free)
        for id in ids:
            assert await streams.run_head() == id

    async def recover(self, streams: StreamProbe, limit: int) -> list[int]:
        """How many were retried in each batch."""
        wanted = DeadLetterFilter(target="mail", since=START - DAY)
        place: BulkCursor | None = BulkCursor()
        found = []
        while place is not None:
            moved, place = await streams.probe.store.dead_letters.move(
                wanted, Retry(), place, limit
            )
            found.append(moved)
        return found[:-1]

    async def test_a_batch_is_no_larger_than_its_limit(self, streams: StreamProbe) -> None:
        for name in ("a", "b", "c"):
            await streams.add(1, stream=name)
            await streams.run_head(Verdict.DEAD)
        assert await self.recover(streams, 2) == [2, 1]
        assert await self.recover(streams, 2) == []

    async def test_cancelling_waiting_deliveries_advances_streams(
        self, streams: StreamProbe
    ) -> None:
        await streams.add(1, stream="blocked")
        await streams.run_head(Verdict.DEAD)
        ids = await streams.add(2)
        ids += await streams.add(1, target="other")
        free = await streams.probe.deliver()
        target = await streams.probe.target()
        cancelled = 0
        while count := await streams.probe.store.endpoints.cancel_waiting(target, 9):
            cancelled += count
        assert cancelled == 3
        states = [(await streams.probe.ledger(id))["state"] for id in (*ids, free)]
        assert states == ["cancelled", "cancelled", "pending", "cancelled"]
        lane = await streams.lane()
        assert lane is not None
        assert lane["head"] == ids[2]
        assert (await streams.service.get("blocked")).state == "blocked"
        assert await streams.probe.store.endpoints.waiting([target]) == {target: (0, 0)}
