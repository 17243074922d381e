"""Dead letters that an operator holds, releases or gives up."""

from __future__ import annotations

import pytest

from duly import App, Conflict, DeadLetterFilter, InvalidInput
from duly.records.dead_letter import BulkProgress
from duly.records.recovery import WhichLetters
from duly.testing import VirtualClock, run_until_idle
from tests.services.recovery.test_policies import DAY, die, policy
from tests.services.work import NAME, Work, blocked

pytestmark = pytest.mark.requirement("L2")
HELD = DeadLetterFilter(disposition=WhichLetters.HELD)
OPEN = DeadLetterFilter(disposition=WhichLetters.OPEN)
GIVEN_UP = DeadLetterFilter(disposition=WhichLetters.GIVEN_UP)


async def last(progress: object) -> BulkProgress:
    found = [each async for each in progress]  # type: ignore[attr-defined]
    assert found
    return found[-1]  # type: ignore[no-any-return]


async def test_no_policy_touches_a_held_one_until_it_is_released(work: Work) -> None:
    (id,) = await die(work, "a")
    held = await work.app.dead_letters.hold(id, "ask the bank first")
    assert (held.disposition, held.disposition_note) == ("held", "ask the bank first")
    await policy(work.app, after=0)
    assert await run_until_idle(work.app, within=DAY) == 0
    released = await work.app.dead_letters.release(id)
    assert (released.disposition, released.disposition_note) == (None, None)
    assert await run_until_idle(work.app) == 1
    assert await work.states(id) == ["completed"]


async def test_holding_stops_a_recovery_that_was_planned(work: Work, clock: VirtualClock) -> None:
    await policy(work.app)
    (id,) = await die(work, "a")
    assert (await work.app.get(id)).disposition == "recovering"
    held = await work.app.dead_letters.hold(id, "wait")
    assert held.revive_at is None
    assert await run_until_idle(work.app, within=DAY) == 0


async def test_a_given_up_one_is_never_retried(work: Work) -> None:
    (id,) = await die(work, "a")
    dead = work.app.dead_letters
    gone = await dead.give_up(id, "the customer left")
    assert (gone.state, gone.disposition, gone.disposition_note) == (
        "dead",
        "given_up",
        "the customer left",
    )
    await policy(work.app, after=0)
    assert await run_until_idle(work.app, within=DAY) == 0
    for refused in (
        dead.retry(id),
        work.app.retry(id),
        dead.edit(id, "b"),
        dead.hold(id, "no"),
        dead.release(id),
    ):
        with pytest.raises(Conflict, match="given up for good"):
            await refused
    progress = [each async for each in dead.retry_all(DeadLetterFilter(ids=(id,)))]
    assert all(each.done == 0 for each in progress)
    assert (await work.app.get(id)).disposition == "given_up"
    await dead.discard(id, "out of the list")
    assert await work.states(id) == ["cancelled"]


async def test_a_given_up_head_lets_its_followers_proceed(work: Work) -> None:
    ids = await blocked(work)
    await work.app.dead_letters.give_up(ids[0], "no use")
    await run_until_idle(work.app)
    assert await work.states(*ids) == ["dead", "completed", "completed"]
    with pytest.raises(Conflict):
        await work.app.retry(ids[0])


async def test_a_held_head_blocks_until_it_is_retried(work: Work) -> None:
    ids = await blocked(work)
    await work.app.dead_letters.hold(ids[0], "look")
    await run_until_idle(work.app)
    assert await work.states(*ids) == ["dead", "pending", "pending"]
    await work.app.streams.retry_now(NAME)
    assert (await work.app.get(ids[0])).disposition is None
    work.seen.clear()
    await run_until_idle(work.app)
    assert work.seen == ["a", "b", "c"]


async def test_a_bulk_retry_leaves_held_ones_unless_it_names_them(work: Work) -> None:
    one, two = await die(work, "a", "b")
    dead = work.app.dead_letters
    await dead.hold(one, "wait")
    assert (await last(dead.retry_all())).done == 1
    assert await work.states(one, two) == ["dead", "pending"]
    assert (await last(dead.retry_all(HELD))).done == 1
    assert (await work.app.get(one)).disposition is None


async def test_they_are_listed_grouped_counted_and_filtered(work: Work) -> None:
    one, two, three = await die(work, "a", "b", "c")
    dead = work.app.dead_letters
    await dead.hold(one, "wait")
    await dead.give_up(two, "no use")
    for filter, ids in ((HELD, [one]), (GIVEN_UP, [two]), (OPEN, [three])):
        assert [each.id for each in await dead.list(filter)] == ids
        assert [each.id for each in (await dead.page(filter)).items] == ids
        assert await dead.count(filter) == 1
        assert [each.count for each in await dead.groups(filter)] == [1]
    assert await dead.count() == 3


async def test_in_bulk_and_safe_to_repeat(work: Work) -> None:
    ids = await die(work, *range(5))
    await die(work, "s", stream=NAME)
    dead = work.app.dead_letters
    assert (await last(dead.hold_all(DeadLetterFilter(), "wait"))).done == 6
    assert await dead.count(HELD) == 6
    assert [each async for each in dead.hold_all(DeadLetterFilter(), "wait")] == []
    assert (await last(dead.release_all(DeadLetterFilter(ids=(ids[0],))))).done == 1
    assert (await last(dead.release_all())).done == 5
    assert (await last(dead.give_up_all(OPEN, "enough"))).done == 6
    assert await dead.count(GIVEN_UP) == 6
    again = await dead.give_up(ids[0], "again")
    assert again.disposition_note == "enough"


async def test_each_is_in_history_and_audit_trail(work: Work) -> None:
    (id,) = await die(work, "a")
    dead = work.app.dead_letters
    await dead.hold(id, "wait")
    await dead.release(id)
    await dead.give_up(id, "no use")
    detail = await work.app.deliveries.detail(id)
    assert [(each.by, each.reason, each.note) for each in detail.transitions][-4:] == [
        ("dead", None, None),  # the attempt has its error
        ("held", "operator", "wait"),
        ("hold_released", "operator", None),
        ("given_up", "operator", "no use"),
    ]
    assert {each.after for each in detail.transitions[-3:]} == {"dead"}
    entries = await work.app.audit.list()
    found = [(each.action, each.subject, each.detail) for each in entries[:3]]
    assert found == [
        ("dead_letter.given_up", id, {"note": "no use"}),
        ("dead_letter.released", id, None),
        ("dead_letter.held", id, {"note": "wait"}),
    ]


async def test_only_a_dead_letter_can_be_held(app: App, work: Work) -> None:
    (id,) = await work.add("a")
    for refused in (
        app.dead_letters.hold(id, "no"),
        app.dead_letters.give_up(id, "no"),
        app.dead_letters.release(id),
    ):
        with pytest.raises(Conflict, match="only a dead letter"):
            await refused


@pytest.mark.parametrize("note", ["", "x" * 1001, None, "line\nbreak"])
async def test_a_note_is_needed(work: Work, note: str) -> None:
    (id,) = await die(work, "a")
    for refused in (work.app.dead_letters.hold, work.app.dead_letters.give_up):
        with pytest.raises(InvalidInput) as error:
            await refused(id, note)
        assert error.value.field == "note"
    assert (await work.app.get(id)).disposition is None


async def test_the_status_counts_those_that_wait_for_a_decision(work: Work) -> None:
    one, two, *_ = await die(work, *range(4))
    await die(work, "t", target="other")
    await policy(work.app, target="other", after="10h")
    await work.app.dead_letters.hold(one, "wait")
    await work.app.dead_letters.give_up(two, "no use")
    await run_until_idle(work.app)
    now = (await work.app.stats.overview()).now
    assert (now.dead, now.undecided) == (5, 2)
