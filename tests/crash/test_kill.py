"""kill -9, at random and at every failpoint: everything is delivered, effects exactly once."""

from __future__ import annotations

import random
import time

import pytest

from duly.settings import load
from tests.crash.fleet import Fleet, StoreUnderTest

pytestmark = pytest.mark.long

PLACES = [
    "claim.before",
    "claim.after",
    "settle.before",
    "settle.after",
    "complete.before",
    "complete.middle",
    "complete.after",
    "heartbeat.before",
    "heartbeat.after",
    "handler.enter",
    "handler.exit",
    "reclaim.before",
    "reclaim.after",
]


def workers_for(store: StoreUnderTest) -> int:
    """PostgreSQL is shared by several processes; an SQLite file has one process."""
    return 3 if store.postgres else 1


@pytest.mark.requirement("D4", "D6", "D9")
@pytest.mark.timeout(180)
async def test_repeated_kills_lose_and_repeat_no_effect(
    fleet: Fleet, store: StoreUnderTest
) -> None:
    chance = random.Random(20261115)
    ids = await store.deliver("effect", 2000)
    for _ in range(workers_for(store)):
        fleet.start()
    until_next, kills = 100, 0
    for process, words in fleet.lines():
        if words[0] == "exited":
            if not await store.unfinished():
                break
            fleet.start()
        elif words[0] == "effect":
            until_next -= 1
            if until_next <= 0 and process.alive and kills < 12:
                process.kill()
                process.popen.wait(10)
                kills += 1
                until_next = chance.randrange(20, 250)
            elif kills >= 12:
                break
    if not any(each.alive for each in fleet.processes):
        fleet.start()  # all workers ended before this
    await store.until_finished()
    assert kills >= 8, "too few kills"
    await store.assert_all_once(ids)


@pytest.mark.requirement("D4", "D7")
@pytest.mark.parametrize("place", PLACES)
async def test_a_crash_at_this_failpoint_loses_and_repeats_nothing(
    fleet: Fleet, store: StoreUnderTest, place: str
) -> None:
    ids = await store.deliver("effect", 60) + []
    touched = await store.deliver("touch", 60)
    # A process that dies at the failpoint, then one more during recovery, then one that lives.
    crashing = fleet.start(DULY_FAILPOINTS=_arm(place), DULY_CONCURRENCY="20")
    if place.startswith("reclaim"):
        crashing.popen.wait(20)
        crashing = fleet.start(DULY_FAILPOINTS=f"{place}=kill@1")
    assert crashing.popen.wait(20) == -9, f"{place} was never reached"
    fleet.start()
    await store.until_finished()
    states = dict(await store.run("select state, count(*) from duly.deliveries group by state"))
    assert states == {"completed": len(ids) + len(touched)}
    effects = [row[0] for row in await store.run("select delivery from effects")]
    assert sorted(effects) == sorted(ids)
    assert (await store.run("select count(*) from duly.agenda"))[0][0] == 0


def _arm(place: str) -> str:
    if place.startswith("reclaim"):
        return "handler.enter=kill@10"
    nth = {"handler": 25, "complete": 12, "heartbeat": 1}.get(place.split(".")[0], 2)
    return f"{place}=kill@{nth}"


@pytest.mark.requirement("D2", "D4")
async def test_after_a_crash_only_the_unfinished_deliveries_run(
    fleet: Fleet, store: StoreUnderTest
) -> None:
    a_to_e = await store.deliver("effect", 5)
    first = fleet.start(DULY_FAILPOINTS="complete.before=kill@3", DULY_CONCURRENCY="1")
    assert first.popen.wait(20) == -9
    done = [row[0] for row in await store.run("select delivery from effects")]
    assert len(done) == 2
    fleet.start()
    await store.until_finished()
    effects = [row[0] for row in await store.run("select delivery from effects")]
    assert effects[:2] == done
    assert sorted(effects) == sorted(a_to_e)


@pytest.mark.requirement("F3")
async def test_poison_dies_within_its_attempts_and_others_spend_none(
    fleet: Fleet, store: StoreUnderTest
) -> None:
    innocents = await store.deliver("touch", 100)
    await store.deliver("poison", 1)
    fleet.start()
    deaths = 0
    for _process, words in fleet.lines():
        if words[0] == "exited":
            deaths += 1
            fleet.start()
        dead_count = "select count(*) from duly.deliveries where state = 'dead'"
        if words[0] == "Reclaimed" and (await store.run(dead_count))[0][0]:
            break
        assert deaths < 12
    await store.until_finished()
    rows = await store.run("select id, state, attempt, reason from duly.deliveries")
    by_id = {str(row[0]): row[1:] for row in rows}
    assert all(by_id[each] == ("completed", 1, None) for each in innocents)
    poison = next(row for id, row in by_id.items() if id not in innocents)
    assert poison[0] == "dead"
    assert poison[2] == "poison_message"
    assert poison[1] <= 4


def defaults() -> dict[str, str]:
    """The default settings, instead of the quick ones of these tests."""
    settings = load({}, {})
    return {
        f"DULY_{name.upper()}": f"{getattr(settings, name):g}"
        for name in ("lease", "recovery_interval", "poll")
    }


@pytest.mark.requirement("D7")
@pytest.mark.parametrize(
    ("settings", "seconds"),
    [(defaults(), 20.0), ({"DULY_LEASE": "3", "DULY_RECOVERY_INTERVAL": "0.5"}, 5.0)],
    ids=["twenty_seconds_by_default", "five_when_configured"],
)
async def test_a_delivery_of_a_dead_worker_runs_elsewhere_within(
    fleet: Fleet, store: StoreUnderTest, settings: dict[str, str], seconds: float
) -> None:
    await store.deliver("hang-first", 3)
    first = fleet.start(HANGS="1", **settings)
    fleet.wait_for("hang-first")
    if store.postgres:
        second = fleet.start(**settings)
        fleet.wait_for("WorkerStarted")
    first.kill()
    killed_at = time.monotonic()
    if not store.postgres:
        second = fleet.start(**settings)
    process, _ = fleet.wait_for("hang-first", within=seconds)
    while process is first:
        process, _ = fleet.wait_for("hang-first", within=seconds)
    assert process is second
    assert time.monotonic() - killed_at < seconds
    await store.until_finished(within=5)
