"""A worker that was taken for dead and comes back: what it held did not kill it."""

from typing import Any

import pytest

import duly
from duly.domain.deliveries.outcomes import Verdict
from duly.failpoints import arm
from duly.ports import ClaimRequest
from tests.engine.house import Gate, House, Life, only, states
from tests.stores.store_probe import StoreProbe, settlement


async def born(house: House, gate: Gate, **settings: Any) -> Life:
    app = house.app(lease=12, **settings)
    app.handler("work", retry=duly.delays(*[0] * 9))(gate.handle)
    return await house.born(app)


async def buried(life: Life, house: House, *, taken_back: bool = True) -> None:
    """Silent for longer than its lease, though it lives; others take back what it held."""
    house.clock.advance(13)
    assert await life.app.store.workers.declare_dead()
    if taken_back:
        await life.engine.worker.recovery.take_back()


async def come_back(life: Life) -> None:
    """Its heart finds the lease lost."""
    life.engine.worker.membership.lease.lost = True
    await life.engine.worker.lease_monitor.tick()


async def lane(life: Life) -> tuple[int, int]:
    """The crashes and the level of the only lane."""
    probe = StoreProbe(life.app.store, life.app.clock)  # type: ignore[arg-type]
    (row,) = await probe.sql("select crashes, priority from duly.agenda")
    return row["crashes"], row["priority"]


@pytest.mark.requirement("F3", "D7")
async def test_a_worker_that_comes_back_takes_back_the_crash_it_was_counted(
    any_house: House,
) -> None:
    life = await born(any_house, Gate())
    await life.app.deliver("work", priority=7)
    for _ in range(2):
        await life.tick()
        await buried(life, any_house)
        before = await lane(life)
        await come_back(life)
        assert (before, await lane(life)) == ((1, 7), (0, 7))
    assert life.app.telemetry.counts["CrashesTakenBack"] == 2
    found = await only(life.app)
    history = await life.app.deliveries.history(found.id)
    assert [each.outcome for each in history] == ["released", "released"]
    assert "came back" in str(history[0].error)
    assert len({each.worker for each in history}) == 2


@pytest.mark.requirement("F3", "D7")
async def test_no_number_of_black_holes_makes_a_delivery_poison(any_house: House) -> None:
    gate = Gate()
    life = await born(any_house, gate)
    await life.app.deliver("work")
    for _ in range(8):
        await life.tick()
        await buried(life, any_house)
        await come_back(life)
    gate.open.set()
    await life.engine.worker.step()
    found = await only(life.app)
    assert (found.state, found.attempt, len(gate.entered)) == ("completed", 1, 9)


@pytest.mark.requirement("F3", "D7")
async def test_what_ran_alone_gets_its_attempt_back_and_is_no_suspect_any_more(
    any_house: House,
) -> None:
    gate = Gate()
    life = await born(any_house, gate)
    await life.app.deliver("work", priority=7)
    for _ in range(2):
        await life.tick()
        await buried(life, any_house)
        # As if these two had died: nobody comes back for them.
        await life.kill()
        life = await born(any_house, gate)
    assert await lane(life) == (2, 0)
    await life.tick()
    await buried(life, any_house)
    assert await lane(life) == (3, 0)
    assert (await only(life.app)).attempt == 1
    await come_back(life)
    assert await lane(life) == (2, 0)
    found = await only(life.app)
    assert (found.attempt, found.reason, found.error) == (0, None, None)
    outcomes = [
        (each.outcome, each.attempt) for each in await life.app.deliveries.history(found.id)
    ]
    assert outcomes == [("reclaimed", 0), ("reclaimed", 0), ("released", 0)]


@pytest.mark.requirement("D7")
async def test_one_that_comes_back_before_its_lanes_were_taken_hands_them_back(
    any_house: House,
) -> None:
    life = await born(any_house, Gate())
    await life.app.deliver("work")
    await life.tick()
    await buried(life, any_house, taken_back=False)
    await come_back(life)
    assert (await only(life.app)).state == "pending"
    assert await lane(life) == (0, 5)
    assert await life.engine.worker.recovery.take_back() == 0
    (told,) = await life.app.deliveries.history((await only(life.app)).id)
    assert (told.outcome, told.attempt) == ("released", 0)


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("verdict", [Verdict.COMPLETED, Verdict.RETRY, Verdict.RELEASED])
async def test_whoever_holds_it_now_is_not_disturbed(any_house: House, verdict: Verdict) -> None:
    life = await born(any_house, Gate())
    await life.app.deliver("work")
    await life.tick()
    await buried(life, any_house)
    probe = StoreProbe(life.app.store, any_house.clock)  # type: ignore[arg-type]
    (target,) = (await life.app.store.targets.numbers(["work"], create=False)).values()
    claimed = await other_claim(probe, target)
    await come_back(life)
    assert (await only(life.app)).state == "processing"
    settled = settlement(claimed, verdict, any_house.clock.now(), crashes=claimed.crashes)
    assert await probe.settle(settled)
    if verdict is Verdict.COMPLETED:
        assert await states(life.app) == {"completed": 1}
    elif verdict is Verdict.RELEASED:
        assert await lane(life) == (0, 5), "what is handed back does not bring the crash back"


async def other_claim(probe: StoreProbe, target: int) -> Any:
    worker = await probe.worker()
    asks = [ClaimRequest(5, target, probe.clock.now().replace(year=2000), 9)]
    (claimed,) = await probe.claim(worker, 9, asks)
    assert claimed.crashes == 1
    return claimed


@pytest.mark.requirement("F3")
async def test_a_crash_after_an_attempt_that_ended_is_not_taken_back_for_an_earlier_one(
    any_house: House,
) -> None:
    life = await born(any_house, Gate())
    await life.app.deliver("work")
    await life.tick()
    await buried(life, any_house)
    probe = StoreProbe(life.app.store, any_house.clock)  # type: ignore[arg-type]
    (target,) = (await life.app.store.targets.numbers(["work"], create=False)).values()
    claimed = await other_claim(probe, target)
    any_house.clock.advance(1)
    await probe.settle(settlement(claimed, Verdict.RETRY, any_house.clock.now(), wait=0.0))
    any_house.clock.advance(5)
    victim = await probe.worker()
    asks = [ClaimRequest(5, target, any_house.clock.now().replace(year=2000), 9)]
    (again,) = await probe.claim(victim, 9, asks)
    reclaimed = settlement(again, Verdict.RECLAIMED, any_house.clock.now(), crashes=1)
    await probe.settle(reclaimed)
    await come_back(life)
    assert await lane(life) == (1, 5)


@pytest.mark.requirement("F3", "D7")
async def test_the_head_of_a_stream_is_acquitted_too(any_house: House) -> None:
    life = await born(any_house, Gate())
    for number in range(3):
        await life.app.deliver("work", number, stream="line", priority=7)
    await life.tick()
    await buried(life, any_house)
    assert await lane(life) == (1, 7)
    await come_back(life)
    assert await lane(life) == (0, 7)


@pytest.mark.requirement("D7")
async def test_a_claim_whose_answer_was_lost_is_acquitted_too(any_house: House) -> None:
    life = await born(any_house, Gate())
    await life.app.deliver("work")
    arm("claim.after=raise")
    life.engine.worker.signal.hint()
    with pytest.raises(Exception, match=r"claim\.after"):
        await life.engine.worker.dispatcher.tick()
    arm("")
    await buried(life, any_house)
    assert await lane(life) == (1, 5)
    await come_back(life)
    assert await lane(life) == (0, 5)


@pytest.mark.requirement("D7")
async def test_it_is_taken_back_when_the_store_answers_again(any_house: House) -> None:
    life = await born(any_house, Gate())
    await life.app.deliver("work")
    await life.tick()
    await buried(life, any_house)
    workers = life.engine.worker.store.workers
    undo_crashes, asked = workers.undo_crashes, 0

    async def away_at_first(worker: int, suspect_after: int) -> int:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise duly.StoreUnavailable("away")
        return await undo_crashes(worker, suspect_after)

    workers.undo_crashes = away_at_first  # type: ignore[method-assign]
    with pytest.raises(duly.StoreUnavailable):
        await come_back(life)
    await life.engine.worker.lease_monitor.tick()
    assert await lane(life) == (0, 5)
    assert life.app.telemetry.counts["LeaseWasLost"] == 1
    await life.engine.worker.lease_monitor.tick()
    assert asked == 2
