"""Recovery of dead letters under kill -9: each once a step, none lost, streams in order."""

from __future__ import annotations

import pytest

from tests.crash.fleet import Fleet, StoreUnderTest
from tests.crash.test_dead_letters import make_dead
from tests.crash.test_streams import assert_in_order, deliver, prepare
from tests.crash.worker import build

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
PLACES = [f"{step}.{when}" for step in ("decide", "revive") for when in ("before", "middle")]
PLACES += ["decide.after", "revive.after"]
STREAMS, COUNT = 7, 140
FAST = {"DULY_RECOVERY_RATE": "30"}
RETRIED = "select count(*), count(distinct delivery) from duly.attempts where outcome = 'retried'"


async def dead_letters(store: StoreUnderTest, target: str) -> None:
    """Dead letters in streams, and one policy that retries each of them once."""
    await prepare(store)
    await deliver(store, target, STREAMS, COUNT)
    await make_dead(store)
    async with build(store.database) as app:
        await app.recovery.set("handler_exception", tries=1, then="hold")


async def assert_each_once(store: StoreUnderTest, why: str) -> None:
    rows = await store.run(f"{RETRIED} and reason = '{why}'")
    assert tuple(rows[0]) == (COUNT, COUNT), "a dead letter was retried twice, or not at all"


@pytest.mark.requirement("L1")
@pytest.mark.parametrize("place", PLACES)
async def test_a_kill_in_a_sweep_retries_each_once_and_keeps_the_order(
    fleet: Fleet, store: StoreUnderTest, place: str
) -> None:
    await dead_letters(store, "in-stream")
    # Everything is decided in the second step; the first lets the policies apply at all.
    for _ in range(1 if place.startswith("decide") else 2):
        crashing = fleet.start(DULY_FAILPOINTS=f"{place}=kill@2", **FAST)
        assert crashing.popen.wait(60) == -9, f"{place} was never reached"
    for _ in range(3 if store.postgres else 1):
        fleet.start(**FAST)
    await store.until("select count(*) from duly.deliveries where state = 'completed'", COUNT)
    await assert_in_order(store, COUNT)
    await assert_each_once(store, "recovery")
    rows = await store.run("select revivals, count(*) from duly.deliveries group by revivals")
    assert [tuple(row) for row in rows] == [(1, COUNT)]


@pytest.mark.requirement("L3")
@pytest.mark.parametrize("place", ["revive.before", "revive.middle", "revive.after"])
async def test_a_kill_while_a_generation_is_tried(
    fleet: Fleet, store: StoreUnderTest, place: str
) -> None:
    await dead_letters(store, "in-stream")
    async with build(store.database) as app:
        await app.recovery.set("handler_exception", tries=1, after="1d", then="hold")
    given = FAST | {"DULY_GENERATION": "v42"}
    crashing = fleet.start(DULY_FAILPOINTS=f"{place}=kill@2", **given)
    assert crashing.popen.wait(60) == -9, f"{place} was never reached"
    for _ in range(3 if store.postgres else 1):
        fleet.start(**given)
    await store.until("select count(*) from duly.deliveries where state = 'completed'", COUNT)
    await assert_in_order(store, COUNT)
    await assert_each_once(store, "generation")
    await store.until("select count(*) from duly.generations where done_at is not null", 1)
    assert (await store.run("select tried from duly.generations"))[0][0] == COUNT
