"""What becomes of streams beside people: races, sweeping, pruning, forgetting, endpoints' moves."""

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
from tests.stores.books import START, Books
from tests.stores.deliveries.test_maintenance import prune, sweep
from tests.stores.lines import NAME, Lines

DAY = timedelta(days=1)


@pytest.fixture
def lines(books: Books) -> Lines:
    return Lines(books)


class TestAtTheSameMoment:
    @pytest.mark.requirement("F7", "D7")
    @pytest.mark.parametrize("verdict", [Verdict.COMPLETED, Verdict.DEAD, Verdict.RETRY])
    async def test_a_pause_does_not_cost_a_worker_its_settlement(
        self, lines: Lines, elsewhere: Books, verdict: Verdict
    ) -> None:
        ids = await lines.add(2)
        claimed = await lines.claim()
        assert claimed is not None
        async with elsewhere.store.database.together() as session:
            line = await heads.locked(session, "default", NAME)
            assert line is not None
            settling = asyncio.create_task(lines.settle(claimed, verdict), context=Context())
            await somebody_waits(lines.books)
            await heads.write(session, operations.pause(line, START, "now"), START)
        assert await settling
        lane = await lines.lane()
        assert lane is not None
        assert lane["token"] is None
        assert lane["halted"] == ("blocked" if verdict is Verdict.DEAD else "paused")
        assert lane["head"] == (ids[1] if verdict is Verdict.COMPLETED else ids[0])

    @pytest.mark.requirement("F5")
    async def test_whoever_adds_while_an_operator_ends_the_line_waits_for_it(
        self, lines: Lines, elsewhere: Books
    ) -> None:
        (first,) = await lines.add()
        async with elsewhere.store.database.together() as session:
            line = await heads.locked(session, "default", NAME)
            assert line is not None
            adding = asyncio.create_task(lines.add(), context=Context())
            await somebody_waits(lines.books)
            change = operations.dead_letter_head(line, None)
            assert await heads.write(session, change, START)
        (second,) = await adding
        assert await lines.ended() == second
        assert (await lines.books.ledger(first))["state"] == "dead"

    @pytest.mark.requirement("F5")
    async def test_a_lane_that_somebody_claims_is_not_cancelled_from(self, lines: Lines) -> None:
        (id,) = await lines.add()
        found, cancelled = await asyncio.gather(
            lines.claim(), lines.books.store.deliveries.cancel(id), return_exceptions=True
        )
        state = (await lines.books.store.deliveries.get(id)).state
        if isinstance(cancelled, Exception):
            assert (state, getattr(found, "id", None)) == ("processing", id)
        else:
            assert (state, found) == ("cancelled", None)


async def somebody_waits(books: Books) -> None:
    """Return when somebody waits for a lock; on SQLite whoever writes waits by itself."""
    waiting = (
        "select count(*) as size from pg_stat_activity"
        " where wait_event_type = 'Lock' and datname = current_database()"
    )
    if isinstance(books.store.database, Postgres):
        async with asyncio.timeout(30):
            while not (await books.sql(waiting))[0]["size"]:
                pass


@pytest.mark.requirement("D15", "F5")
class TestSweeping:
    async def lost(self, lines: Lines) -> list[str]:
        """A stream that has lost its lane after its first one was done."""
        ids = await lines.add(3, priority=5, due_at=START - DAY)
        await lines.ended()
        await lines.books.sql("delete from duly.agenda")
        return ids

    async def test_a_line_without_a_lane_gets_it_back(self, lines: Lines) -> None:
        ids = await self.lost(lines)
        await lines.add(1, stream="fine")
        assert await sweep(lines.books) == Swept(without_lane=1)
        lane = await lines.lane()
        assert lane is not None
        assert (lane["head"], lane["position"], lane["due_at"]) == (ids[1], 2, START - DAY)
        assert (lane["token"], lane["halted"], lane["schedule"]) == (None, None, None)
        assert await sweep(lines.books) == Swept()

    async def test_a_paused_one_stays_paused(self, lines: Lines) -> None:
        await self.lost(lines)
        await lines.people.pause(NAME)
        assert await sweep(lines.books, batch=1) == Swept(without_lane=1)
        assert (await lines.people.get(NAME)).state == "paused"
        assert await lines.claim() is None

    async def test_one_that_its_line_went_past_is_gone_back_to(self, lines: Lines) -> None:
        ids = await lines.add(4)
        await lines.ended()
        await lines.books.sql(
            f"update duly.agenda set position = 3, delivery = {lines.books.place(ids[2])}"
        )
        assert await sweep(lines.books) == Swept(without_lane=1)
        for id in (ids[2], ids[1], ids[3]):
            assert await lines.ended() == id

    async def test_what_is_well_is_left_alone(self, lines: Lines) -> None:
        await lines.add(2, stream="blocked")
        await lines.ended(Verdict.DEAD)
        await lines.add(2, stream="paused")
        await lines.people.pause("paused")
        await lines.add(2, stream="held")
        await lines.claim()
        await lines.add(1, stream="retried", on_failure="release")
        await lines.ended(Verdict.RETRY)
        lanes = await lines.books.sql("select * from duly.agenda order by lane")
        assert await sweep(lines.books, batch=2) == Swept()
        assert await lines.books.sql("select * from duly.agenda order by lane") == lanes


class TestPruning:
    async def names(self, lines: Lines) -> set[str]:
        return {row["name"] for row in await lines.books.sql("select name from duly.streams")}

    async def test_idle_streams_go_when_nothing_is_left_of_them(self, lines: Lines) -> None:
        for name in ("done", "configured", "paused", "blocked", "used"):
            await lines.add(1, stream=name)
            await lines.ended(Verdict.DEAD if name == "blocked" else Verdict.COMPLETED)
            await lines.empties()
        await lines.people.configure("configured", on_failure="release")
        await lines.people.pause("paused")
        await lines.add(1, stream="used", due_at=START + 90 * DAY)
        lines.books.clock.advance(2 * DAY)
        await prune(lines.books, 3 * DAY, 5 * DAY)
        assert len(await self.names(lines)) == 5
        lines.books.clock.advance(2 * DAY)
        await prune(lines.books, 3 * DAY, 5 * DAY, batch=2)
        assert await self.names(lines) == {"configured", "paused", "blocked", "used"}

    @pytest.mark.requirement("C10")
    async def test_what_blocks_a_stream_is_never_pruned(self, lines: Lines) -> None:
        ids = await lines.add(2)
        await lines.ended(Verdict.DEAD)
        lines.books.clock.advance(30 * DAY)
        assert await prune(lines.books, DAY, DAY) == 0
        await lines.people.release(NAME)
        assert await prune(lines.books, DAY, DAY) == 1
        assert await lines.ended() == ids[1]

    async def test_who_comes_back_into_a_stream_that_was_forgotten_finds_a_place(
        self, lines: Lines
    ) -> None:
        ids = await lines.add(3, on_failure="release")
        for verdict in (Verdict.COMPLETED, Verdict.DEAD, Verdict.DEAD):
            await lines.ended(verdict)
        await lines.empties()
        lines.books.clock.advance(30 * DAY)
        await prune(lines.books, DAY, 90 * DAY)
        assert await self.names(lines) == set()
        now = lines.books.clock.now()
        ids += await lines.add(2, due_at=now)
        for id in ids[1:3]:
            await lines.books.store.deliveries.retry(id)
        places = {id: (await lines.books.ledger(id))["position"] for id in ids[1:]}
        assert places == {ids[1]: 3, ids[2]: 4, ids[3]: 1, ids[4]: 2}, "the second's was taken"
        ids += await lines.add(1, due_at=now)
        for id in (ids[3], ids[4], ids[1], ids[2], ids[5]):
            assert await lines.ended() == id
        assert await lines.empties()


async def test_forgetting_a_namespace_forgets_its_streams(lines: Lines) -> None:
    await lines.add(3)
    await lines.ended(Verdict.DEAD)
    await lines.add(1, stream="x")
    after: str | None = "00000000-0000-0000-0000-000000000000"
    while after is not None:
        after = await lines.books.store.maintenance.forget("default", after, 2)
    for table in ("deliveries", "agenda", "attempts", "streams"):
        assert await lines.books.count(table) == 0, table


@pytest.mark.requirement("C8", "F5")
class TestEndpoints:
    async def test_recovering_puts_dead_letters_back_to_their_places(self, lines: Lines) -> None:
        ids = await lines.add(1, on_failure="release")
        ids += await lines.add(3)
        await lines.ended(Verdict.DEAD)
        await lines.ended(Verdict.DEAD)
        free = await lines.books.finished(Verdict.DEAD)
        assert await self.recover(lines, 9) == [1, 2]
        lines.books.clock.advance(1)
        await lines.books.store.deliveries.cancel(free)
        for id in ids:
            assert await lines.ended() == id

    async def recover(self, lines: Lines, limit: int) -> list[int]:
        """Batch for batch how many came back."""
        wanted = DeadLetterFilter(target="mail", since=START - DAY)
        place: BulkCursor | None = BulkCursor()
        found = []
        while place is not None:
            moved, place = await lines.books.store.dead_letters.move(wanted, Retry(), place, limit)
            found.append(moved)
        return found[:-1]

    async def test_a_batch_is_no_larger_than_asked_for(self, lines: Lines) -> None:
        for name in ("a", "b", "c"):
            await lines.add(1, stream=name)
            await lines.ended(Verdict.DEAD)
        assert await self.recover(lines, 2) == [2, 1]
        assert await self.recover(lines, 2) == []

    async def test_cancelling_what_waits_moves_streams_on(self, lines: Lines) -> None:
        await lines.add(1, stream="blocked")
        await lines.ended(Verdict.DEAD)
        ids = await lines.add(2)
        ids += await lines.add(1, target="other")
        free = await lines.books.deliver()
        target = await lines.books.target()
        cancelled = 0
        while count := await lines.books.store.endpoints.cancel_waiting(target, 9):
            cancelled += count
        assert cancelled == 3
        states = [(await lines.books.ledger(id))["state"] for id in (*ids, free)]
        assert states == ["cancelled", "cancelled", "pending", "cancelled"]
        lane = await lines.lane()
        assert lane is not None
        assert lane["head"] == ids[2]
        assert (await lines.people.get("blocked")).state == "blocked"
        assert await lines.books.store.endpoints.waiting([target]) == {target: (0, 0)}
