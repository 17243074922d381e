"""kill -9 between the steps of a handler: what was recorded is not done again."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.crash.fleet import Books, Fleet, Process

pytestmark = pytest.mark.long

STEPS = ["one", "two", "three"]
AFTER_THE_FIRST = [
    ("steps", "step.after=kill@1", (1, 1)),
    # Between a step and its record nobody can tell that it was done.
    ("steps", "step.before=kill@2", (2, 1)),
    # The third is done in a transaction, and with it undone.
    ("steps", "complete.before=kill@1", (1, 2)),
    ("steps", "complete.middle=kill@1", (1, 2)),
    ("steps", "handler.exit=kill@1", (1, 2)),
    ("steps-in-thread", "step.after=kill@2", (1, 1)),
    ("steps-in-thread", "step.before=kill@3", (1, 2)),
    ("steps-in-thread", "handler.exit=kill@1", (1, 1)),
    ("steps-in-thread", "settle.before=kill@1", (1, 1)),
    ("steps-in-thread", "settle.after=kill@1", (1, 1)),
]
"""The handler, where its worker dies, and how often it runs its second and third step in all."""
Ran = Counter[tuple[str, ...]]


def ended(fleet: Fleet, process: Process) -> Ran:
    """What a worker that is dead had to say since somebody last listened."""
    process.popen.wait(60)
    process._reader.join(5)
    words: Ran = Counter()
    while not fleet.said.empty():
        words[tuple(fleet.said.get()[1])] += 1
    return words


async def recovered(fleet: Fleet, books: Books) -> Ran:
    """Let another worker finish; what it ran."""
    survivor = fleet.start()
    await books.until_finished()
    survivor.kill()
    return ended(fleet, survivor)


async def recorded(books: Books) -> set[tuple[str, ...]]:
    """Each step that is on the books, as workers say it."""
    rows = await books.run("select name, delivery from duly.steps")
    return {(name, str(delivery)) for name, delivery in rows}


@pytest.mark.requirement("F8", "D4")
@pytest.mark.parametrize(("target", "place", "times"), AFTER_THE_FIRST)
async def test_a_crash_after_the_first_of_three_steps_does_not_repeat_it(
    fleet: Fleet, books: Books, target: str, place: str, times: tuple[int, int]
) -> None:
    (id,) = await books.deliver(target, 1)
    crashed = fleet.start(DULY_FAILPOINTS=place)
    ran = ended(fleet, crashed)
    assert crashed.popen.returncode == -9, f"{place} was never reached"
    assert ("one", id) in await recorded(books)
    ran += await recovered(fleet, books)
    assert [ran[name, id] for name in STEPS] == [1, *times]
    assert await recorded(books) == {(name, id) for name in STEPS}
    if target == "steps":
        # The first step's result is the number of the process that ran it.
        assert await books.run("select delivery, worker from effects") == [(id, crashed.popen.pid)]


@pytest.mark.requirement("F8", "D4")
@pytest.mark.parametrize("target", ["steps", "steps-in-thread"])
async def test_kill_nine_repeats_no_step_that_was_recorded(
    fleet: Fleet, books: Books, target: str
) -> None:
    ids = await books.deliver(target, 20)
    crashed = fleet.start()
    fleet.wait_for("recorded")
    crashed.kill()
    ended(fleet, crashed)
    before = await recorded(books)
    ran = await recovered(fleet, books)
    assert before
    assert not before & set(ran)
    assert await recorded(books) == {(name, id) for name in STEPS for id in ids}
