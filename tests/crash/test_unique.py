"""Unique keys under kill -9: at most one runs and one waits, and the last contents arrive."""

from __future__ import annotations

import asyncio
import os
import random
from collections import defaultdict
from contextlib import AsyncExitStack
from typing import Any

import pytest

import duly
from tests.crash.fleet import Fleet, StoreUnderTest
from tests.crash.worker import build

pytestmark = [pytest.mark.long, pytest.mark.requirement("P7", "D4")]

ROUNDS = int(os.environ.get("DULY_TEST_CHAOS", "1500")) // 10
KEYS = 20
KILLS = 6
PLACES = ["claim.after", "settle.before", "settle.middle", "settle.after", "handler.exit"]
WAITING = """
select count(*) from (
    select d.target, d.unique_key from duly.agenda a join duly.deliveries d on {same}
    where a.token is null and d.unique_key is not null
    group by d.target, d.unique_key having count(*) > 1
) found
"""


async def waiting_twice(store: StoreUnderTest) -> int:
    """How many keys more than one delivery waits with."""
    same = "d.id = a.delivery" if store.postgres else "d.number = a.delivery"
    return int((await store.run(WAITING.format(same=same)))[0][0])


async def call(app: duly.App, caller: int, chance: random.Random) -> dict[str, int]:
    """Deliver ever higher numbers with all keys; returns the last number of each."""
    last: dict[str, int] = {}
    for round in range(ROUNDS):
        keys = chance.sample(range(KEYS), KEYS)
        if round % 10 == 0:
            await app.deliver_many(_item(caller, key, round) for key in keys)
        else:
            for key in keys[:3]:
                await app.deliver(**_item(caller, key, round))
        last |= {f"{caller}:{key}": round for key in (keys if round % 10 == 0 else keys[:3])}
    return last


def _item(caller: int, key: int, round: int) -> dict[str, Any]:
    # Each caller has keys of its own, so that the order of its contents is known.
    name = f"{caller}:{key}"
    return {
        "target": "coalesced",
        "payload": {"key": name, "n": round},
        "key": name,
        "unique": "pending",
        "on_duplicate": "replace",
    }


async def assert_view(store: StoreUnderTest, last: dict[str, int]) -> None:
    """The receiver saw the last contents of each key last, and each effect once."""
    seen: dict[str, list[int]] = defaultdict(list)
    for key, n in await store.run("select key, n from coalesced_effects order by id"):
        seen[key].append(n)
    assert {key: numbers[-1] for key, numbers in seen.items()} == last, "the last was lost"
    assert all(sorted(set(each)) == each for each in seen.values()), "twice, or out of order"
    effects = sum(map(len, seen.values()))
    states = dict(await store.run("select state, count(*) from duly.deliveries group by state"))
    assert states.pop("completed") == effects
    assert states.keys() <= {"cancelled"}
    reasons = await store.run(
        "select distinct reason from duly.deliveries where state = 'cancelled'"
    )
    assert reasons in ([], [("superseded",)])
    assert (await store.run("select count(*) from duly.agenda"))[0][0] == 0
    assert (await store.run("select count(*) from duly.unique_keys"))[0][0] == 0


async def prepare(store: StoreUnderTest) -> None:
    serial = "bigserial primary key" if store.postgres else "integer primary key autoincrement"
    await store.run(f"create table coalesced_effects (id {serial}, key text, n bigint)")


@pytest.mark.timeout(600)
async def test_repeated_kills_lose_no_last_contents(fleet: Fleet, store: StoreUnderTest) -> None:
    chance = random.Random(20261119)
    await prepare(store)
    async with AsyncExitStack() as apps:
        callers = [await apps.enter_async_context(build(store.database)) for _ in range(3)]
        for _ in range(3 if store.postgres else 1):
            fleet.start(DULY_CONCURRENCY="20")
        calling = asyncio.gather(*(call(app, n, random.Random(n)) for n, app in enumerate(callers)))
        kills = 0
        while not calling.done() or kills < KILLS // 2:
            await asyncio.wait([calling], timeout=chance.uniform(0.2, 0.8))
            assert await waiting_twice(store) == 0
            alive = [each for each in fleet.processes if each.alive]
            if kills < KILLS and alive:
                killed = chance.choice(alive)
                killed.kill()
                killed.popen.wait(10)
                kills += 1
            if len([each for each in fleet.processes if each.alive]) < (3 if store.postgres else 1):
                fleet.start(DULY_CONCURRENCY="20")
        last = {key: n for each in await calling for key, n in each.items()}
    await store.until_finished()
    assert kills >= KILLS // 2, "too few kills"
    await assert_view(store, last)


@pytest.mark.parametrize("place", PLACES)
async def test_a_crash_at_this_failpoint_loses_no_last_contents(
    fleet: Fleet, store: StoreUnderTest, place: str
) -> None:
    await prepare(store)
    async with build(store.database) as app:
        await app.deliver_many(_item(0, key, 0) for key in range(KEYS))
        nth = 10 if place.startswith("handler") else 2
        environment = {"DULY_FAILPOINTS": f"{place}=kill@{nth}", "DULY_CONCURRENCY": "8"}
        crashing = fleet.start(**environment)
        next(words for _, words in fleet.lines() if words[0] in ("coalesced", "exited"))
        for n in range(1, 4):
            await app.deliver_many(_item(0, key, n) for key in range(KEYS))
        assert crashing.popen.wait(20) == -9, f"{place} was never reached"
        assert await waiting_twice(store) == 0
        fleet.start()
    await store.until_finished()
    await assert_view(store, {f"0:{key}": 3 for key in range(KEYS)})
