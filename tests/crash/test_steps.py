"""kill -9 between the steps of a handler: recorded steps are not repeated."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.crash.fleet import Fleet, Process, StoreUnderTest

pytestmark = pytest.mark.long

STEPS = ["one", "two", "three"]
AFTER_THE_FIRST = [
    ("steps", "step.after=kill@1", (1, 1)),
    # Between a step and its record it is not known that it was done.
    ("steps", "step.before=kill@2", (2, 1)),
    # The third is done in a transaction, and rolled back with it.
    ("steps", "complete.before=kill@1", (1, 2)),
    ("steps", "complete.middle=kill@1", (1, 2)),
    ("steps", "handler.exit=kill@1", (1, 2)),
    ("steps-in-thread", "step.after=kill@2", (1, 1)),
    ("steps-in-thread", "step.before=kill@3", (1, 2)),
    ("steps-in-thread", "handler.exit=kill@1", (1, 1)),
    ("steps-in-thread", "settle.before=kill@1", (1, 1)),
    ("steps-in-thread", "settle.after=kill@1", (1, 1)),
]
"""The handler, the failpoint, and how often its second and third step run in total."""
Ran = Counter[tuple[str, ...]]


def output_of(fleet: Fleet, process: Process) -> Ran:
    """The lines of a worker that has ended, since they were last read."""
    process.popen.wait(60)
    process._reader.join(5)
    words: Ran = Counter()
    while not fleet.output.empty():
        words[tuple(fleet.output.get()[1])] += 1
    return words


async def recover(fleet: Fleet, store: StoreUnderTest) -> Ran:
    """Let another worker finish; returns its lines."""
    survivor = fleet.start()
    await store.until_finished()
    survivor.kill()
    return output_of(fleet, survivor)


async def recorded(store: StoreUnderTest) -> set[tuple[str, ...]]:
    """The recorded steps, in the form of the workers' lines."""
    rows = await store.run("select name, delivery from duly.steps")
    return {(name, str(delivery)) for name, delivery in rows}


@pytest.mark.requirement("F8", "D4")
@pytest.mark.parametrize(("target", "place", "times"), AFTER_THE_FIRST)
async def test_a_crash_after_the_first_of_three_steps_does_not_repeat_it(
    fleet: Fleet, store: StoreUnderTest, target: str, place: str, times: tuple[int, int]
) -> None:
    (id,) = await store.deliver(target, 1)
    crashed = fleet.start(DULY_FAILPOINTS=place)
    ran = output_of(fleet, crashed)
    assert crashed.popen.returncode == -9, f"{place} was never reached"
    assert ("one", id) in await recorded(store)
    ran += await recover(fleet, store)
    assert [ran[name, id] for name in STEPS] == [1, *times]
    assert await recorded(store) == {(name, id) for name in STEPS}
    if target == "steps":
        # The first step's result is the number of the process that ran it.
        assert await store.run("select delivery, worker from effects") == [(id, crashed.popen.pid)]


@pytest.mark.requirement("F8", "D4")
@pytest.mark.parametrize("target", ["steps", "steps-in-thread"])
async def test_a_kill_repeats_no_recorded_step(
    fleet: Fleet, store: StoreUnderTest, target: str
) -> None:
    ids = await store.deliver(target, 20)
    crashed = fleet.start()
    fleet.wait_for("recorded")
    crashed.kill()
    output_of(fleet, crashed)
    before = await recorded(store)
    ran = await recover(fleet, store)
    assert before
    assert not before & set(ran)
    assert await recorded(store) == {(name, id) for name in STEPS for id in ids}
