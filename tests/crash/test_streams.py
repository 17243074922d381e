"""Streams under kill -9: in order, one at a time, none lost, effects exactly once."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections import defaultdict
from collections.abc import Iterable

import pytest

from tests.crash.fleet import Fleet, StoreUnderTest
from tests.crash.worker import build

pytestmark = pytest.mark.long

DELIVERIES = int(os.environ.get("DULY_TEST_CHAOS", "1500"))
"""The default; `DULY_TEST_CHAOS=20000` for a long run."""
STREAMS = 200
KILLS = 6
PLACES = ["claim.after", "settle.before", "settle.after", "complete.middle", "handler.exit"]


async def deliver(store: StoreUnderTest, target: str, streams: int, count: int) -> None:
    """Deliver this many over these streams, numbered within each stream."""
    async with build(store.database) as app:
        await app.deliver_many(
            {
                "target": target,
                "payload": {"stream": n % streams, "n": n // streams},
                "stream": f"s{n % streams}",
            }
            for n in range(count)
        )


def by_stream(entries: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """The numbers of each stream, in order."""
    found: dict[int, list[int]] = defaultdict(list)
    for stream, n in entries:
        found[stream].append(n)
    return found


async def prepare(store: StoreUnderTest) -> None:
    serial = "bigserial primary key" if store.postgres else "integer primary key autoincrement"
    await store.run(
        f"create table stream_effects (id {serial}, stream bigint, n bigint, worker bigint)"
    )


async def assert_in_order(store: StoreUnderTest, count: int) -> None:
    rows = await store.run("select stream, n from stream_effects order by id")
    done = by_stream((int(stream), int(n)) for stream, n in rows)
    assert {stream: sorted(numbers) for stream, numbers in done.items()} == dict(done), (
        "out of order"
    )
    assert all(numbers == list(range(len(numbers))) for numbers in done.values()), (
        "lost or repeated"
    )
    assert sum(map(len, done.values())) == count
    states = await store.run("select state, count(*) from duly.deliveries group by state")
    assert dict(states) == {"completed": count}
    assert (await store.run("select count(*) from duly.agenda"))[0][0] == 0


@pytest.mark.requirement("F5", "F6", "D4", "D7")
@pytest.mark.timeout(600)
async def test_repeated_kills_keep_every_stream_in_order(
    fleet: Fleet, store: StoreUnderTest
) -> None:
    chance = random.Random(20261115)
    await prepare(store)
    await deliver(store, "in-stream", STREAMS, DELIVERIES)
    for _ in range(3 if store.postgres else 1):
        fleet.start()
    until_next, kills, two_at_once = 150, 0, []
    for process, words in fleet.lines():
        if words[0] == "exited":
            if not await store.unfinished():
                break
            fleet.start()
        elif words[0] == "two-at-once":
            two_at_once.append(words)
        elif words[0] == "in-stream":
            until_next -= 1
            if until_next <= 0 and process.alive and kills < KILLS:
                process.kill()
                process.popen.wait(10)
                kills += 1
                until_next = chance.randrange(40, DELIVERIES // 10)
            elif kills >= KILLS:
                break
    if not any(each.alive for each in fleet.processes):
        fleet.start()
    await store.until_finished()
    assert kills >= KILLS - 2, "too few kills"
    assert two_at_once == []
    await assert_in_order(store, DELIVERIES)


@pytest.mark.requirement("F5", "D4")
@pytest.mark.parametrize("place", PLACES)
async def test_a_crash_at_this_failpoint_keeps_the_order_and_loses_none(
    fleet: Fleet, store: StoreUnderTest, place: str
) -> None:
    await prepare(store)
    await deliver(store, "in-stream", 5, 100)
    nth = {"handler": 30, "complete": 20}.get(place.split(".")[0], 3)
    crashing = fleet.start(DULY_FAILPOINTS=f"{place}=kill@{nth}", DULY_CONCURRENCY="20")
    assert crashing.popen.wait(20) == -9, f"{place} was never reached"
    fleet.start()
    await store.until_finished()
    await assert_in_order(store, 100)


@pytest.mark.requirement("F5", "F6")
@pytest.mark.parametrize("place", ["settle.before", "handler.exit"])
async def test_a_crash_within_a_run_repeats_some_and_reorders_none(
    fleet: Fleet, store: StoreUnderTest, place: str
) -> None:
    await deliver(store, "in-run", 3, 300)
    nth = 70 if place.startswith("handler") else 3
    crashing = fleet.start(DULY_FAILPOINTS=f"{place}=kill@{nth}")
    executed: list[tuple[int, int]] = []
    for _process, words in fleet.lines():
        if words[0] == "exited":
            assert crashing.popen.returncode == -9, f"{place} was never reached"
            fleet.start()
        elif words[0] == "in-run":
            executed.append((int(words[1]), int(words[2])))
        if len(set(executed)) == 300:
            break
    await store.until_finished()
    for stream, numbers in by_stream(executed).items():
        first = list(dict.fromkeys(numbers))
        assert first == list(range(100)), f"stream {stream} out of order: {numbers}"
    attempts = await store.run("select attempt, count(*) from duly.deliveries group by attempt")
    assert dict(attempts) == {1: 270, 2: 30}, "a crash spends no attempt"


async def produce(store: StoreUnderTest, producers: int, count: int) -> list[tuple[float, float]]:
    """Deliver to one stream from several apps; returns when each call began and ended.

    The index of a call is the number in its payload.
    """
    numbers, spans = itertools.count(), [(0.0, 0.0)] * count

    async def deliver_in_turn() -> None:
        async with build(store.database) as app:
            while (n := next(numbers)) < count:
                began = time.monotonic()
                await app.deliver("in-stream", {"stream": 0, "n": n}, stream="s")
                spans[n] = (began, time.monotonic())

    await asyncio.gather(*(deliver_in_turn() for _ in range(producers)))
    return spans


@pytest.mark.requirement("F5")
@pytest.mark.timeout(300)
async def test_six_producers_are_processed_in_the_order_of_acceptance(
    fleet: Fleet, store: StoreUnderTest
) -> None:
    """A delivery that was accepted before another was requested comes first."""
    await prepare(store)
    fleet.start()
    spans = await produce(store, 6, DELIVERIES // 3)
    await store.until_finished()
    rows = await store.run("select n from stream_effects order by id")
    assert sorted(row[0] for row in rows) == list(range(len(spans)))
    latest_begin = 0.0
    for (n,) in rows:
        began, ended = spans[n]
        assert ended >= latest_begin, f"{n} was accepted before one that was processed earlier"
        latest_begin = max(latest_begin, began)
    positions = await store.run("select position from duly.deliveries order by position")
    assert [row[0] for row in positions] == list(range(1, len(spans) + 1))
