"""kill -9, at random and at the worst places: everything is delivered, effects exactly once."""

from __future__ import annotations

import random
import time

import pytest

from duly.settings import load
from tests.crash.fleet import Books, Fleet

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


def workers_for(books: Books) -> int:
    """PostgreSQL is shared by several processes; an SQLite file has one at a time."""
    return 3 if books.postgres else 1


@pytest.mark.requirement("D4", "D6", "D9")
@pytest.mark.timeout(180)
async def test_kill_nine_again_and_again_repeats_no_effect_and_loses_none(
    fleet: Fleet, books: Books
) -> None:
    chance = random.Random(20261115)
    ids = await books.deliver("effect", 2000)
    for _ in range(workers_for(books)):
        fleet.start()
    until_next, kills = 100, 0
    for process, words in fleet.words():
        if words[0] == "exited":
            if not await books.unfinished():
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
        fleet.start()  # its last words were heard before its end
    await books.until_finished()
    assert kills >= 8, "too few kills prove nothing"
    await books.assert_all_once(ids)


@pytest.mark.requirement("D4", "D7")
@pytest.mark.parametrize("place", PLACES)
async def test_a_crash_at_this_place_loses_and_repeats_nothing(
    fleet: Fleet, books: Books, place: str
) -> None:
    ids = await books.deliver("effect", 60) + []
    touched = await books.deliver("touch", 60)
    # A process that dies at the place, then one more while it recovers, then one that lives.
    crashing = fleet.start(DULY_FAILPOINTS=_arm(place), DULY_CONCURRENCY="20")
    if place.startswith("reclaim"):
        crashing.popen.wait(20)
        crashing = fleet.start(DULY_FAILPOINTS=f"{place}=kill@1")
    assert crashing.popen.wait(20) == -9, f"{place} was never reached"
    fleet.start()
    await books.until_finished()
    states = dict(await books.run("select state, count(*) from duly.deliveries group by state"))
    assert states == {"completed": len(ids) + len(touched)}
    effects = [row[0] for row in await books.run("select delivery from effects")]
    assert sorted(effects) == sorted(ids)
    assert (await books.run("select count(*) from duly.agenda"))[0][0] == 0


def _arm(place: str) -> str:
    if place.startswith("reclaim"):
        return "handler.enter=kill@10"
    nth = {"handler": 25, "complete": 12, "heartbeat": 1}.get(place.split(".")[0], 2)
    return f"{place}=kill@{nth}"


@pytest.mark.requirement("D2", "D4")
async def test_after_a_crash_the_rest_follows_and_what_was_done_does_not(
    fleet: Fleet, books: Books
) -> None:
    a_to_e = await books.deliver("effect", 5)
    first = fleet.start(DULY_FAILPOINTS="complete.before=kill@3", DULY_CONCURRENCY="1")
    assert first.popen.wait(20) == -9
    done = [row[0] for row in await books.run("select delivery from effects")]
    assert len(done) == 2
    fleet.start()
    await books.until_finished()
    effects = [row[0] for row in await books.run("select delivery from effects")]
    assert effects[:2] == done
    assert sorted(effects) == sorted(a_to_e)


@pytest.mark.requirement("F3")
async def test_poison_dies_within_its_attempts_and_its_neighbours_spend_none(
    fleet: Fleet, books: Books
) -> None:
    innocents = await books.deliver("touch", 100)
    await books.deliver("poison", 1)
    fleet.start()
    deaths = 0
    for _process, words in fleet.words():
        if words[0] == "exited":
            deaths += 1
            fleet.start()
        buried = "select count(*) from duly.deliveries where state = 'dead'"
        if words[0] == "Reclaimed" and (await books.run(buried))[0][0]:
            break
        assert deaths < 12
    await books.until_finished()
    rows = await books.run("select id, state, attempt, reason from duly.deliveries")
    by_id = {str(row[0]): row[1:] for row in rows}
    assert all(by_id[each] == ("completed", 1, None) for each in innocents)
    poison = next(row for id, row in by_id.items() if id not in innocents)
    assert poison[0] == "dead"
    assert poison[2] == "poison_message"
    assert poison[1] <= 4


def defaults() -> dict[str, str]:
    """The settings as they come, in place of this suite's quick ones."""
    settings = load({}, {})
    return {
        f"DULY_{name.upper()}": f"{getattr(settings, name):g}"
        for name in ("lease", "recovery_interval", "poll")
    }


@pytest.mark.requirement("D7")
@pytest.mark.parametrize(
    ("settings", "seconds"),
    [(defaults(), 20.0), ({"DULY_LEASE": "3", "DULY_RECOVERY_INTERVAL": "0.5"}, 5.0)],
    ids=["twenty_seconds_by_default", "five_when_so_configured"],
)
async def test_what_a_dead_worker_held_runs_elsewhere_within(
    fleet: Fleet, books: Books, settings: dict[str, str], seconds: float
) -> None:
    await books.deliver("hang-first", 3)
    first = fleet.start(HANGS="1", **settings)
    fleet.wait_for("hang-first")
    if books.postgres:
        second = fleet.start(**settings)
        fleet.wait_for("WorkerStarted")
    first.kill()
    killed_at = time.monotonic()
    if not books.postgres:
        second = fleet.start(**settings)
    process, _ = fleet.wait_for("hang-first", within=seconds)
    while process is first:
        process, _ = fleet.wait_for("hang-first", within=seconds)
    assert process is second
    assert time.monotonic() - killed_at < seconds
    await books.until_finished(within=5)
