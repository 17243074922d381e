"""Streams in the store: how they advance, and every column that operators write."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.domain.deliveries.fingerprints import fingerprint
from duly.domain.deliveries.outcomes import Verdict
from duly.errors import Conflict
from tests.stores.store_probe import START, Row, StoreProbe
from tests.stores.stream_probe import NAME, StreamProbe

MINUTE = timedelta(minutes=1)
NEVER = datetime(9999, 12, 31, tzinfo=UTC)


@pytest.fixture
def streams(probe: StoreProbe) -> StreamProbe:
    return StreamProbe(probe)


def history_row(id: str, outcome: str, at: datetime, **more: object) -> Row:
    """A row of the history that no worker wrote."""
    row = dict.fromkeys(
        ("token", "started_at", "next_at", "reason", "error", "answer", "traceback", "exception")
    )
    return {"delivery": id, "attempt": 0, "outcome": outcome, "finished_at": at, **row, **more}


def head_of(lane: Row | None) -> str | None:
    return None if lane is None else str(lane["head"])


@pytest.mark.requirement("F5")
class TestStream:
    async def test_a_stream_has_one_lane_and_a_position_for_each_delivery(
        self, streams: StreamProbe
    ) -> None:
        ids = await streams.add(3, due_at=START - MINUTE)
        assert await streams.probe.count("agenda") == 1
        assert await streams.lane() == {
            "head": ids[0], "due_at": START - MINUTE, "token": None, "claimed_at": None,
            "target": await streams.probe.target(), "priority": 5, "crashes": 0, "schedule": None,
            "position": 1, "replay_from": None, "halted": None, "halted_at": None,
            "unblocks_at": None, "turn": None,
        }  # fmt: skip
        positions = [(await streams.probe.ledger(id))["position"] for id in ids]
        assert positions == [1, 2, 3]
        assert await streams.row() == {
            "namespace": "default", "name": NAME, "counter": 3, "on_failure": None,
            "block_for": None, "paused_at": None, "reason": None, "used_at": START,
        }  # fmt: skip

    async def test_a_claim_takes_up_to_32_and_ends_before_one_that_is_not_due(
        self, streams: StreamProbe
    ) -> None:
        ids = await streams.add(40)
        claimed = await streams.claim()
        assert claimed is not None
        assert [each.id for each in claimed.followers or ()] == ids[1:32]
        await streams.add(1, stream="x", due_at=START)
        await streams.add(1, stream="x", due_at=START + MINUTE)
        await streams.add(1, stream="x", due_at=START)
        other = await streams.claim()
        assert other is not None
        assert not other.followers

    async def test_a_stream_ends_when_its_last_deliveries_left_it(
        self, streams: StreamProbe
    ) -> None:
        ids = await streams.add(3)
        await streams.probe.store.deliveries.cancel(ids[2])
        claimed = await streams.claim()
        assert claimed is not None
        (follower,) = claimed.followers or ()
        assert follower.position is not None
        ended = [
            streams.settlement(
                claimed, Verdict.COMPLETED, follower=(follower.id, follower.position)
            ),
            streams.settlement(follower, Verdict.COMPLETED),
        ]
        assert await streams.probe.settle(*ended) == {claimed.lane}
        assert await streams.lane_is_removed()

    async def test_a_stream_continues_with_a_delivery_added_while_it_ended(
        self, streams: StreamProbe
    ) -> None:
        ids = await streams.add(2)
        await streams.probe.store.deliveries.cancel(ids[1])
        await streams.run_head()
        (third,) = await streams.add()
        streams.probe.clock.advance(1)
        assert await streams.run_head() == third
        assert await streams.lane_is_removed()

    async def test_a_delivery_that_left_the_stream_is_not_its_head(
        self, streams: StreamProbe
    ) -> None:
        (id,) = await streams.add(on_failure="release")
        await streams.run_head(Verdict.RETRY)
        ledger, own = await streams.probe.ledger(id), await streams.own_lane(id)
        assert own["due_at"] == START + timedelta(seconds=90.5)
        for move in ("dead_letter_head", "release", "retry_now"):
            with pytest.raises(Conflict, match="is idle"):
                await getattr(streams.service, move)(NAME)
        assert (await streams.probe.ledger(id), await streams.own_lane(id)) == (ledger, own)
        (second,) = await streams.add(due_at=START + MINUTE)
        await streams.probe.store.deliveries.retry(second)
        assert await streams.run_head() == second

    async def test_an_empty_lane_is_claimed_with_its_position(self, streams: StreamProbe) -> None:
        (id,) = await streams.add()
        await streams.probe.sql(f"update duly.deliveries set state = 'completed' where id = '{id}'")
        found = await streams.claim()
        assert found is not None
        assert (found.id, found.position) == (None, 1)
        assert found.ready_at is not None, "where the next claim begins to look"

    async def test_a_head_that_was_retried_early_can_be_claimed(self, streams: StreamProbe) -> None:
        (id,) = await streams.add(due_at=START + 60 * MINUTE)
        await streams.probe.store.deliveries.retry(id)
        claimed = await streams.claim()
        assert claimed is not None
        assert claimed.ready_at <= START


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("stale_first", [True, False])
async def test_of_two_outcomes_in_one_batch_the_holders_applies_in_any_order(
    streams: StreamProbe, stale_first: bool
) -> None:
    (id,) = await streams.add()
    stale = await streams.claim()
    assert stale is not None
    await streams.probe.store.agenda.release(stale.token)
    current = await streams.claim()
    assert current is not None
    batch = [streams.settlement(each, Verdict.COMPLETED) for each in (stale, current)]
    await streams.probe.settle(*(batch if stale_first else reversed(batch)))
    ledger = await streams.probe.ledger(id)
    assert (ledger["state"], ledger["attempt"]) == ("completed", 1)
    assert ledger["token"] == current.token
    assert await streams.lane() is None


@pytest.mark.requirement("F5")
class TestReplay:
    """An earlier delivery is retried while the lane is held."""

    async def held(self, streams: StreamProbe, behind: int = 1) -> tuple[list[str], object]:
        """A dead letter that left the stream, and the next delivery, which is held."""
        ids = await streams.add(1, on_failure="release")
        ids += await streams.add(1 + behind, due_at=START)
        await streams.run_head(Verdict.DEAD)
        claimed = await streams.claim()
        assert claimed is not None
        await streams.probe.store.deliveries.retry(ids[0])
        return ids, claimed

    @pytest.mark.parametrize("behind", [0, 1])
    async def test_the_retried_one_runs_after_a_completed_one(
        self, streams: StreamProbe, behind: int
    ) -> None:
        ids, claimed = await self.held(streams, behind)
        assert await streams.settle(claimed, Verdict.COMPLETED)
        assert await streams.run_head() == ids[0]
        for id in ids[2:]:
            assert await streams.run_head() == id
        assert await streams.lane_is_removed()

    async def test_the_retried_one_runs_before_a_retry(self, streams: StreamProbe) -> None:
        ids, claimed = await self.held(streams)
        lane = await streams.lane()
        assert lane is not None
        assert lane["replay_from"] == 1
        assert await streams.settle(claimed, Verdict.RETRY)
        lane = await streams.lane()
        assert lane is not None
        assert (lane["head"], lane["position"], lane["replay_from"]) == (ids[0], 1, None)
        assert await streams.run_head() == ids[0]
        assert await streams.run_head() == ids[1]

    async def test_the_retried_one_runs_after_a_suspect(self, streams: StreamProbe) -> None:
        ids, claimed = await self.held(streams)
        assert await streams.settle(claimed, Verdict.RECLAIMED, crashes=1)
        assert head_of(await streams.lane()) == ids[1]
        assert await streams.run_head() == ids[1]
        assert await streams.run_head() == ids[0]

    @pytest.mark.parametrize("move", ["retry_now", "release"])
    async def test_the_retried_one_runs_after_a_blocking_head(
        self, streams: StreamProbe, move: str
    ) -> None:
        ids, claimed = await self.held(streams)
        assert await streams.settle(claimed, Verdict.DEAD)
        assert await streams.claim() is None
        await getattr(streams.service, move)(NAME)
        assert await streams.run_head() == ids[0]
        assert await streams.run_head() == (ids[1] if move == "retry_now" else ids[2])

    async def test_no_delivery_in_between_is_skipped(self, streams: StreamProbe) -> None:
        ids = await streams.add(5)
        claimed = await streams.claim()
        assert claimed is not None
        await streams.probe.sql("update duly.agenda set replay_from = 4")
        assert await streams.settle(claimed, Verdict.COMPLETED)
        for id in ids[1:]:
            assert await streams.run_head() == id

    async def test_a_delivery_that_may_be_in_the_run_cannot_be_cancelled(
        self, streams: StreamProbe
    ) -> None:
        ids, _ = await self.held(streams, 40)
        with pytest.raises(Conflict, match="is being run with its stream"):
            await streams.probe.store.deliveries.cancel(ids[40])


@pytest.mark.requirement("F7")
class TestOperations:
    """Every column that an operator's change writes."""

    async def test_cancelling(self, streams: StreamProbe) -> None:
        ids = await streams.add(2)
        lane, ledger = await streams.lane(), await streams.probe.ledger(ids[0])
        assert lane is not None
        streams.probe.clock.advance(7)
        now = START + timedelta(seconds=7)
        await streams.probe.store.deliveries.cancel(ids[0])
        assert await streams.lane() == lane | {"head": ids[1], "position": 2}
        gone = {"state": "cancelled", "finished_at": now, "lane": None}
        assert await streams.probe.ledger(ids[0]) == ledger | gone
        assert await streams.probe.history(ids[0]) == [history_row(ids[0], "cancelled", now)]

    async def test_retrying_a_dead_head(self, streams: StreamProbe) -> None:
        ids = await streams.add(2, due_at=START - MINUTE, priority=5)
        lane = await streams.lane()
        await streams.run_head(Verdict.DEAD, crashes=4)
        blocked = await streams.lane()
        assert lane is not None
        assert blocked == lane | {"due_at": NEVER, "halted": "blocked", "halted_at": START}
        ledger = await streams.probe.ledger(ids[0])
        streams.probe.clock.advance(7)
        now = START + timedelta(seconds=7)
        await streams.service.retry_now(NAME)
        assert await streams.lane() == lane | {"due_at": now}
        raised = {"state": "pending", "attempt": 0, "finished_at": None, "dead_at": None}
        assert await streams.probe.ledger(ids[0]) == ledger | raised
        assert (await streams.probe.history(ids[0]))[-1] == history_row(ids[0], "retried", now)

    async def test_releasing_a_waiting_head(self, streams: StreamProbe) -> None:
        ids = await streams.add(2, due_at=START - MINUTE, priority=5)
        lane = await streams.lane()
        await streams.run_head(Verdict.RETRY)
        ledger = await streams.probe.ledger(ids[0])
        await streams.service.release(NAME)
        assert lane is not None
        assert await streams.lane() == lane | {"head": ids[1], "position": 2}
        assert await streams.probe.ledger(ids[0]) == ledger | {"lane": None}
        own = await streams.probe.lane(ids[0])
        assert own is not None
        assert own["due_at"] == START + timedelta(seconds=90.5)
        assert own["token"] is None

    async def test_releasing_a_dead_head(self, streams: StreamProbe) -> None:
        ids = await streams.add(2)
        await streams.run_head(Verdict.DEAD)
        ledger, history = await streams.probe.ledger(ids[0]), await streams.probe.history(ids[0])
        await streams.service.release(NAME)
        lane = await streams.lane()
        assert lane is not None
        assert (lane["head"], lane["halted"], lane["halted_at"]) == (ids[1], None, None)
        assert await streams.probe.ledger(ids[0]) == ledger | {"lane": None}
        assert await streams.probe.history(ids[0]) == history

    async def test_dead_lettering_a_head(self, streams: StreamProbe) -> None:
        ids = await streams.add(2)
        ledger = await streams.probe.ledger(ids[0])
        streams.probe.clock.advance(7)
        now = START + timedelta(seconds=7)
        await streams.service.dead_letter_head(NAME, "its note")
        assert head_of(await streams.lane()) == ids[1]
        assert await streams.probe.ledger(ids[0]) == ledger | {
            "state": "dead", "dead_at": now, "finished_at": now, "lane": None,
            "reason": "operator", "error": "its note",
            "fingerprint": fingerprint("operator", "its note"),
        }  # fmt: skip
        reason = {"reason": "operator", "error": "its note"}
        assert await streams.probe.history(ids[0]) == [
            history_row(ids[0], "dead_lettered", now, **reason)
        ]

    async def test_pausing_and_resuming(self, streams: StreamProbe) -> None:
        await streams.add(2, due_at=START + MINUTE)
        lane, row = await streams.lane(), await streams.row()
        assert lane is not None
        assert row is not None
        streams.probe.clock.advance(7)
        now = START + timedelta(seconds=7)
        await streams.service.pause(NAME, "its reason")
        halt = {"due_at": NEVER, "halted": "paused", "halted_at": now}
        assert await streams.lane() == lane | halt
        assert await streams.row() == row | {"paused_at": now, "reason": "its reason"}
        streams.probe.clock.advance(7)
        await streams.service.pause(NAME, "another")
        assert await streams.row() == row | {"paused_at": now, "reason": "another"}
        await streams.service.resume(NAME)
        assert (await streams.lane(), await streams.row()) == (lane, row)

    async def test_pausing_a_held_stream(self, streams: StreamProbe) -> None:
        await streams.add(2)
        claimed = await streams.claim()
        lane = await streams.lane()
        assert lane is not None
        assert claimed is not None
        await streams.service.pause(NAME)
        halt = {"due_at": NEVER, "halted": "paused", "halted_at": START}
        assert await streams.lane() == lane | halt
        assert await streams.settle(claimed, Verdict.RETRY)
        streams.probe.clock.advance(MINUTE)
        assert await streams.claim() is None, "paused, although its retry is due"
        await streams.service.resume(NAME)
        freed = await streams.lane()
        assert freed is not None
        assert freed["due_at"] == START + timedelta(seconds=90.5)

    async def test_resuming_a_held_stream(self, streams: StreamProbe) -> None:
        ids = await streams.add(2)
        claimed = await streams.claim()
        assert claimed is not None
        await streams.service.pause(NAME)
        await streams.service.resume(NAME)
        assert await streams.settle(claimed, Verdict.RELEASED)
        assert await streams.run_head() == ids[0]

    async def test_a_suspect_stays_a_suspect_through_a_pause(self, streams: StreamProbe) -> None:
        await streams.add(2)
        claimed = await streams.claim()
        assert claimed is not None
        assert await streams.settle(claimed, Verdict.RECLAIMED, crashes=2, priority=0)
        lane = await streams.lane()
        assert lane is not None
        assert (lane["crashes"], lane["priority"]) == (2, 0)
        await streams.service.pause(NAME)
        await streams.service.resume(NAME)
        assert await streams.lane() == lane

    async def test_configuring(self, streams: StreamProbe) -> None:
        await streams.service.configure(NAME, on_failure="release")
        row = await streams.row()
        assert row is not None
        assert (row["on_failure"], row["counter"]) == ("release", 0)
        await streams.add(2)
        row = await streams.row()
        assert row is not None
        assert (row["on_failure"], row["counter"]) == ("release", 2)


@pytest.mark.requirement("F7")
async def test_waiting_deliveries_are_counted_up_to_a_limit(streams: StreamProbe) -> None:
    await streams.add(9)
    assert [(await streams.probe.store.streams.get(NAME, most)).waiting for most in (5, 8, 99)] == [
        5,
        8,
        8,
    ]


@pytest.mark.requirement("F7")
async def test_a_delivery_that_blocks_a_stream_is_stuck(streams: StreamProbe) -> None:
    ids = await streams.add(2, stream="it's")
    await streams.run_head(Verdict.DEAD)
    (found,) = await streams.probe.store.deliveries.stuck(MINUTE, 9)
    assert found.id == ids[0]
    assert found.why.startswith(
        "it blocks stream it's; duly streams retry-now 'it'\"'\"'s' retries"
    )
