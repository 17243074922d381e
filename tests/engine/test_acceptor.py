"""Taking deliveries in: yes only after the store said so, and commits that are shared."""

import asyncio
from datetime import timedelta

import pytest

from duly import App, Conflict
from duly.failpoints import FailpointRaised, arm
from tests.engine.house import Gate, House


async def with_work(house: House) -> App:
    app = house.app()
    app.handler("work")(Gate().handle)
    await app.open()
    return app


@pytest.mark.requirement("D1")
async def test_a_failure_before_the_commit_is_a_no_and_nothing_is_stored(any_house: House) -> None:
    app = await with_work(any_house)
    arm("deliver.before=raise")
    with pytest.raises(FailpointRaised):
        await app.deliver("work", 1)
    with pytest.raises(FailpointRaised):
        await app.deliver_many([("work", 1)])
    arm("")
    assert await app.list() == []


@pytest.mark.requirement("D1")
async def test_after_a_lost_answer_the_same_key_finds_the_delivery(any_house: House) -> None:
    app = await with_work(any_house)
    arm("deliver.after=drop@1")
    with pytest.raises(ConnectionError):
        await app.deliver("work", 1, key="k")
    again = await app.deliver("work", 1, key="k")
    assert again.known
    assert [each.id for each in await app.list()] == [again.id]


@pytest.mark.requirement("D1")
async def test_whoever_hears_yes_finds_it_in_the_store_of_another(any_house: House) -> None:
    app = await with_work(any_house)
    other = any_house.app()
    await other.open()
    for number in range(3):
        accepted = await app.deliver("work", number)
        assert (await other.get(accepted.id)).state == "pending"


async def test_callers_that_come_at_once_each_get_their_own_answer(any_house: House) -> None:
    app = await with_work(any_house)
    first = await app.deliver("work", "taken", key="taken")
    calls = [app.deliver("work", number, key=f"k{number}") for number in range(50)]
    conflict = app.deliver("work", "other", key="taken")
    known = app.deliver("work", "taken", key="taken")
    answers = await asyncio.gather(*calls, conflict, known, return_exceptions=True)
    for number, answer in enumerate(answers[:50]):
        assert not isinstance(answer, BaseException)
        assert (await app.get(answer.id)).key == f"k{number}"
    assert isinstance(answers[50], Conflict)
    assert not isinstance(answers[51], BaseException)
    assert (answers[51].id, answers[51].known) == (first.id, True)


async def test_a_caller_that_gave_up_takes_nobody_with_it(house: House) -> None:
    app = await with_work(house)
    gone = asyncio.create_task(app.deliver("work", "gone"))
    stays = asyncio.create_task(app.deliver("work", "stays"))
    for _ in range(3):
        await asyncio.tasks.sleep(0)
    gone.cancel()
    accepted = await asyncio.wait_for(stays, 10)
    assert (await app.get(accepted.id)).target == "work"


@pytest.mark.parametrize(
    ("after", "hinted"), [(0, True), (59, True), (61, False), (timedelta(days=9), False)]
)
async def test_only_what_is_due_soon_wakes_the_workers(
    any_house: House, after: float | timedelta, hinted: bool
) -> None:
    app, hints = await with_work(any_house), []
    app.store.wakeups.listen(lambda: hints.append(1))
    await app.deliver("work", after=after)
    assert bool(hints) == hinted
    hints.clear()
    await app.deliver_many([{"target": "work", "after": after}])
    assert bool(hints) == hinted
