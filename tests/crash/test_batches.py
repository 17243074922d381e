"""Batches under kill -9: exactly one completion, after the last member, with all counts."""

from __future__ import annotations

import pytest

from tests.crash.fleet import Fleet, StoreUnderTest
from tests.crash.worker import build

pytestmark = [pytest.mark.requirement("P8"), pytest.mark.long, pytest.mark.timeout(600)]
MEMBERS = 60
BATCHES = 3
OF_BATCH = (
    "select count(*), count(distinct d.id) from duly.deliveries d "
    "join duly.batches b on b.delivery = d.id where d.state = 'completed'"
)
PENDING = "select count(*) from duly.deliveries where state = 'pending'"
FINISHED = "select count(*) from duly.batches where finished_at is not null"


async def fill(store: StoreUnderTest) -> None:
    """Closed batches whose completions go to `touch`, with members in a stream too."""
    async with build(store.database) as app:
        for number in range(BATCHES):
            async with app.batch(then=("touch", {"number": number})) as batch:
                await batch.deliver_many([("touch", n) for n in range(MEMBERS)])
                await batch.deliver_many(
                    [
                        {"target": "in-run", "payload": {"stream": number, "n": n}, "stream": "s"}
                        for n in range(10)
                    ]
                )


async def assert_one_completion_each(store: StoreUnderTest) -> None:
    await store.until(FINISHED, BATCHES)
    await store.until(PENDING, 0)
    assert tuple((await store.run(OF_BATCH))[0]) == (BATCHES, BATCHES)
    total = await store.run("select count(*) from duly.deliveries")
    assert total[0][0] == BATCHES * (MEMBERS + 10 + 1), "a completion was sent twice, or not at all"
    rows = await store.run("select completed, dead, cancelled, pending from duly.batches")
    assert [tuple(row) for row in rows] == [(MEMBERS + 10, 0, 0, 0)] * BATCHES


@pytest.mark.parametrize("place", ["finish.before", "finish.middle", "finish.after"])
async def test_a_kill_of_the_finisher_sends_exactly_one_completion(
    fleet: Fleet, store: StoreUnderTest, place: str
) -> None:
    await fill(store)
    crashing = fleet.start(DULY_FAILPOINTS=f"{place}=kill@1")
    assert crashing.popen.wait(60) == -9, f"{place} was never reached"
    for _ in range(3 if store.postgres else 1):
        fleet.start()
    await assert_one_completion_each(store)


@pytest.mark.parametrize("place", ["settle.after", "claim.after", "settle.before"])
async def test_kills_of_workers_while_members_run(
    fleet: Fleet, store: StoreUnderTest, place: str
) -> None:
    await fill(store)
    for _ in range(2):
        crashing = fleet.start(DULY_FAILPOINTS=f"{place}=kill@2")
        assert crashing.popen.wait(60) == -9, f"{place} was never reached"
    for _ in range(3 if store.postgres else 1):
        fleet.start()
    await assert_one_completion_each(store)
