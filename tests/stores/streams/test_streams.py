"""Streams on the books: lines that move on, and every column of what operators write."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.domain.deliveries.fingerprints import fingerprint
from duly.domain.deliveries.outcomes import Verdict
from duly.errors import Conflict
from tests.stores.books import START, Books, Row
from tests.stores.lines import NAME, Lines

MINUTE = timedelta(minutes=1)
NEVER = datetime(9999, 12, 31, tzinfo=UTC)


@pytest.fixture
def lines(books: Books) -> Lines:
    return Lines(books)


def moved(id: str, outcome: str, at: datetime, **more: object) -> Row:
    """A row of the history that no worker wrote."""
    row = dict.fromkeys(
        ("token", "started_at", "next_at", "reason", "error", "answer", "traceback")
    )
    return {"delivery": id, "attempt": 0, "outcome": outcome, "finished_at": at, **row, **more}


def head_of(lane: Row | None) -> str | None:
    return None if lane is None else str(lane["head"])


@pytest.mark.requirement("F5")
class TestTheLine:
    async def test_has_one_lane_and_a_place_for_each(self, lines: Lines) -> None:
        ids = await lines.add(3, due_at=START - MINUTE)
        assert await lines.books.count("agenda") == 1
        assert await lines.lane() == {
            "head": ids[0], "due_at": START - MINUTE, "token": None, "claimed_at": None,
            "target": await lines.books.target(), "priority": 5, "crashes": 0, "schedule": None,
            "position": 1, "replay_from": None, "halted": None, "halted_at": None,
        }  # fmt: skip
        places = [(await lines.books.ledger(id))["position"] for id in ids]
        assert places == [1, 2, 3]
        assert await lines.row() == {
            "namespace": "default", "name": NAME, "counter": 3, "on_failure": None,
            "paused_at": None, "reason": None, "used_at": START,
        }  # fmt: skip

    async def test_is_claimed_as_a_run_of_32_that_ends_before_what_is_not_due(
        self, lines: Lines
    ) -> None:
        ids = await lines.add(40)
        claimed = await lines.claim()
        assert claimed is not None
        assert [each.id for each in claimed.followers or ()] == ids[1:32]
        await lines.add(1, stream="x", due_at=START)
        await lines.add(1, stream="x", due_at=START + MINUTE)
        await lines.add(1, stream="x", due_at=START)
        other = await lines.claim()
        assert other is not None
        assert not other.followers

    async def test_ends_though_its_last_ones_left_it(self, lines: Lines) -> None:
        ids = await lines.add(3)
        await lines.books.store.deliveries.cancel(ids[2])
        claimed = await lines.claim()
        assert claimed is not None
        (follower,) = claimed.followers or ()
        assert follower.position is not None
        ended = [
            lines.settlement(claimed, Verdict.COMPLETED, follower=(follower.id, follower.position)),
            lines.settlement(follower, Verdict.COMPLETED),
        ]
        assert await lines.books.settle(*ended) == {claimed.lane}
        assert await lines.empties()

    async def test_goes_on_with_whoever_was_added_while_it_ended(self, lines: Lines) -> None:
        ids = await lines.add(2)
        await lines.books.store.deliveries.cancel(ids[1])
        await lines.ended()
        (third,) = await lines.add()
        lines.books.clock.advance(1)
        assert await lines.ended() == third
        assert await lines.empties()

    async def test_one_that_left_it_does_not_head_it_though_its_lane_still_names_it(
        self, lines: Lines
    ) -> None:
        (id,) = await lines.add(on_failure="release")
        await lines.ended(Verdict.RETRY)
        ledger, own = await lines.books.ledger(id), await lines.own(id)
        assert own["due_at"] == START + timedelta(seconds=90.5)
        for move in ("dead_letter_head", "release", "retry_now"):
            with pytest.raises(Conflict, match="is idle"):
                await getattr(lines.people, move)(NAME)
        assert (await lines.books.ledger(id), await lines.own(id)) == (ledger, own)
        (second,) = await lines.add(due_at=START + MINUTE)
        await lines.books.store.deliveries.retry(second)
        assert await lines.ended() == second

    async def test_is_named_even_when_nobody_is_in_it(self, lines: Lines) -> None:
        (id,) = await lines.add()
        await lines.books.sql(f"update duly.deliveries set state = 'completed' where id = '{id}'")
        found = await lines.claim()
        assert found is not None
        assert (found.id, found.position) == (None, 1)
        assert found.ready_at is not None, "where the next claim begins to look"

    async def test_a_head_that_was_hurried_before_its_time_can_be_claimed(
        self, lines: Lines
    ) -> None:
        (id,) = await lines.add(due_at=START + 60 * MINUTE)
        await lines.books.store.deliveries.retry(id)
        claimed = await lines.claim()
        assert claimed is not None
        assert claimed.ready_at <= START


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("stale_first", [True, False])
async def test_of_two_ends_in_one_batch_the_holders_counts_whatever_their_order(
    lines: Lines, stale_first: bool
) -> None:
    (id,) = await lines.add()
    stale = await lines.claim()
    assert stale is not None
    await lines.books.store.agenda.release(stale.token)
    present = await lines.claim()
    assert present is not None
    batch = [lines.settlement(each, Verdict.COMPLETED) for each in (stale, present)]
    await lines.books.settle(*(batch if stale_first else reversed(batch)))
    ledger = await lines.books.ledger(id)
    assert (ledger["state"], ledger["attempt"]) == ("completed", 1)
    assert ledger["token"] == present.token
    assert await lines.lane() is None


@pytest.mark.requirement("F5")
class TestGoingBack:
    """Somebody retries an earlier one while the lane is held."""

    async def held(self, lines: Lines, behind: int = 1) -> tuple[list[str], object]:
        """A dead letter that left the line, and the one after it, which is held."""
        ids = await lines.add(1, on_failure="release")
        ids += await lines.add(1 + behind, due_at=START)
        await lines.ended(Verdict.DEAD)
        claimed = await lines.claim()
        assert claimed is not None
        await lines.books.store.deliveries.retry(ids[0])
        return ids, claimed

    @pytest.mark.parametrize("behind", [0, 1])
    async def test_after_the_present_one(self, lines: Lines, behind: int) -> None:
        ids, claimed = await self.held(lines, behind)
        assert await lines.settle(claimed, Verdict.COMPLETED)
        assert await lines.ended() == ids[0]
        for id in ids[2:]:
            assert await lines.ended() == id
        assert await lines.empties()

    async def test_before_the_present_one_is_tried_again(self, lines: Lines) -> None:
        ids, claimed = await self.held(lines)
        lane = await lines.lane()
        assert lane is not None
        assert lane["replay_from"] == 1
        assert await lines.settle(claimed, Verdict.RETRY)
        lane = await lines.lane()
        assert lane is not None
        assert (lane["head"], lane["position"], lane["replay_from"]) == (ids[0], 1, None)
        assert await lines.ended() == ids[0]
        assert await lines.ended() == ids[1]

    async def test_but_not_before_one_that_is_suspected(self, lines: Lines) -> None:
        ids, claimed = await self.held(lines)
        assert await lines.settle(claimed, Verdict.RECLAIMED, crashes=1)
        assert head_of(await lines.lane()) == ids[1]
        assert await lines.ended() == ids[1]
        assert await lines.ended() == ids[0]

    @pytest.mark.parametrize("move", ["retry_now", "release"])
    async def test_also_when_the_present_one_dies_and_blocks(self, lines: Lines, move: str) -> None:
        ids, claimed = await self.held(lines)
        assert await lines.settle(claimed, Verdict.DEAD)
        assert await lines.claim() is None
        await getattr(lines.people, move)(NAME)
        assert await lines.ended() == ids[0]
        assert await lines.ended() == (ids[1] if move == "retry_now" else ids[2])

    async def test_and_skips_nobody_who_stands_between(self, lines: Lines) -> None:
        ids = await lines.add(5)
        claimed = await lines.claim()
        assert claimed is not None
        await lines.books.sql("update duly.agenda set replay_from = 4")
        assert await lines.settle(claimed, Verdict.COMPLETED)
        for id in ids[1:]:
            assert await lines.ended() == id

    async def test_whoever_is_cancelled_then_may_be_in_the_run(self, lines: Lines) -> None:
        ids, _ = await self.held(lines, 40)
        with pytest.raises(Conflict, match="is being run with its stream"):
            await lines.books.store.deliveries.cancel(ids[40])


@pytest.mark.requirement("F7")
class TestWriting:
    """Every column that an operator's move writes."""

    async def test_cancelling(self, lines: Lines) -> None:
        ids = await lines.add(2)
        lane, ledger = await lines.lane(), await lines.books.ledger(ids[0])
        assert lane is not None
        lines.books.clock.advance(7)
        now = START + timedelta(seconds=7)
        await lines.books.store.deliveries.cancel(ids[0])
        assert await lines.lane() == lane | {"head": ids[1], "position": 2}
        gone = {"state": "cancelled", "finished_at": now, "lane": None}
        assert await lines.books.ledger(ids[0]) == ledger | gone
        assert await lines.books.history(ids[0]) == [moved(ids[0], "cancelled", now)]

    async def test_retrying_a_dead_head(self, lines: Lines) -> None:
        ids = await lines.add(2, due_at=START - MINUTE, priority=5)
        lane = await lines.lane()
        await lines.ended(Verdict.DEAD, crashes=4)
        blocked = await lines.lane()
        assert lane is not None
        assert blocked == lane | {"due_at": NEVER, "halted": "blocked", "halted_at": START}
        ledger = await lines.books.ledger(ids[0])
        lines.books.clock.advance(7)
        now = START + timedelta(seconds=7)
        await lines.people.retry_now(NAME)
        assert await lines.lane() == lane | {"due_at": now}
        raised = {"state": "pending", "attempt": 0, "finished_at": None, "dead_at": None}
        assert await lines.books.ledger(ids[0]) == ledger | raised
        assert (await lines.books.history(ids[0]))[-1] == moved(ids[0], "retried", now)

    async def test_releasing_a_head_that_waits(self, lines: Lines) -> None:
        ids = await lines.add(2, due_at=START - MINUTE, priority=5)
        lane = await lines.lane()
        await lines.ended(Verdict.RETRY)
        ledger = await lines.books.ledger(ids[0])
        await lines.people.release(NAME)
        assert lane is not None
        assert await lines.lane() == lane | {"head": ids[1], "position": 2}
        assert await lines.books.ledger(ids[0]) == ledger | {"lane": None}
        own = await lines.books.lane(ids[0])
        assert own is not None
        assert own["due_at"] == START + timedelta(seconds=90.5)
        assert own["token"] is None

    async def test_releasing_a_dead_head(self, lines: Lines) -> None:
        ids = await lines.add(2)
        await lines.ended(Verdict.DEAD)
        ledger, history = await lines.books.ledger(ids[0]), await lines.books.history(ids[0])
        await lines.people.release(NAME)
        lane = await lines.lane()
        assert lane is not None
        assert (lane["head"], lane["halted"], lane["halted_at"]) == (ids[1], None, None)
        assert await lines.books.ledger(ids[0]) == ledger | {"lane": None}
        assert await lines.books.history(ids[0]) == history

    async def test_giving_a_head_up(self, lines: Lines) -> None:
        ids = await lines.add(2)
        ledger = await lines.books.ledger(ids[0])
        lines.books.clock.advance(7)
        now = START + timedelta(seconds=7)
        await lines.people.dead_letter_head(NAME, "its note")
        assert head_of(await lines.lane()) == ids[1]
        assert await lines.books.ledger(ids[0]) == ledger | {
            "state": "dead", "dead_at": now, "finished_at": now, "lane": None,
            "reason": "operator", "error": "its note",
            "fingerprint": fingerprint("operator", "its note"),
        }  # fmt: skip
        told = {"reason": "operator", "error": "its note"}
        assert await lines.books.history(ids[0]) == [moved(ids[0], "dead_lettered", now, **told)]

    async def test_pausing_and_resuming(self, lines: Lines) -> None:
        await lines.add(2, due_at=START + MINUTE)
        lane, row = await lines.lane(), await lines.row()
        assert lane is not None
        assert row is not None
        lines.books.clock.advance(7)
        now = START + timedelta(seconds=7)
        await lines.people.pause(NAME, "its reason")
        halt = {"due_at": NEVER, "halted": "paused", "halted_at": now}
        assert await lines.lane() == lane | halt
        assert await lines.row() == row | {"paused_at": now, "reason": "its reason"}
        lines.books.clock.advance(7)
        await lines.people.pause(NAME, "another")
        assert await lines.row() == row | {"paused_at": now, "reason": "another"}
        await lines.people.resume(NAME)
        assert (await lines.lane(), await lines.row()) == (lane, row)

    async def test_pausing_what_is_held(self, lines: Lines) -> None:
        await lines.add(2)
        claimed = await lines.claim()
        lane = await lines.lane()
        assert lane is not None
        assert claimed is not None
        await lines.people.pause(NAME)
        halt = {"due_at": NEVER, "halted": "paused", "halted_at": START}
        assert await lines.lane() == lane | halt
        assert await lines.settle(claimed, Verdict.RETRY)
        lines.books.clock.advance(MINUTE)
        assert await lines.claim() is None, "though its retry is due"
        await lines.people.resume(NAME)
        freed = await lines.lane()
        assert freed is not None
        assert freed["due_at"] == START + timedelta(seconds=90.5)

    async def test_resuming_what_is_held(self, lines: Lines) -> None:
        ids = await lines.add(2)
        claimed = await lines.claim()
        assert claimed is not None
        await lines.people.pause(NAME)
        await lines.people.resume(NAME)
        assert await lines.settle(claimed, Verdict.RELEASED)
        assert await lines.ended() == ids[0]

    async def test_one_under_suspicion_stays_so_through_a_pause(self, lines: Lines) -> None:
        await lines.add(2)
        claimed = await lines.claim()
        assert claimed is not None
        assert await lines.settle(claimed, Verdict.RECLAIMED, crashes=2, priority=0)
        lane = await lines.lane()
        assert lane is not None
        assert (lane["crashes"], lane["priority"]) == (2, 0)
        await lines.people.pause(NAME)
        await lines.people.resume(NAME)
        assert await lines.lane() == lane

    async def test_configuring(self, lines: Lines) -> None:
        await lines.people.configure(NAME, on_failure="release")
        row = await lines.row()
        assert row is not None
        assert (row["on_failure"], row["counter"]) == ("release", 0)
        await lines.add(2)
        row = await lines.row()
        assert row is not None
        assert (row["on_failure"], row["counter"]) == ("release", 2)


@pytest.mark.requirement("F7")
async def test_those_who_wait_are_counted_up_to_a_limit(lines: Lines) -> None:
    await lines.add(9)
    assert [(await lines.books.store.streams.get(NAME, most)).waiting for most in (5, 8, 99)] == [
        5,
        8,
        8,
    ]


@pytest.mark.requirement("F7")
async def test_what_blocks_a_stream_is_stuck(lines: Lines) -> None:
    ids = await lines.add(2, stream="it's")
    await lines.ended(Verdict.DEAD)
    (found,) = await lines.books.store.deliveries.stuck(MINUTE, 9)
    assert found.id == ids[0]
    assert found.why.startswith("it blocks stream it's; duly streams retry-now 'it'\"'\"'s' retries")
