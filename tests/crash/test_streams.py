"""Streams under kill -9: in order, one at a time, none stranded, effects exactly once."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections import defaultdict
from collections.abc import Iterable

import pytest

from tests.crash.fleet import Books, Fleet
from tests.crash.worker import build

pytestmark = pytest.mark.long

DELIVERIES = int(os.environ.get("DULY_TEST_CHAOS", "1500"))
"""In every run; `DULY_TEST_CHAOS=20000` for a long one."""
STREAMS = 200
KILLS = 6
PLACES = ["claim.after", "settle.before", "settle.after", "complete.middle", "handler.exit"]


async def deliver(books: Books, target: str, streams: int, count: int) -> None:
    """So many deliveries over so many streams, each numbered within its stream."""
    async with build(books.database) as app:
        await app.deliver_many(
            {
                "target": target,
                "payload": {"stream": n % streams, "n": n // streams},
                "stream": f"s{n % streams}",
            }
            for n in range(count)
        )


def by_stream(told: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """What each stream did, in its order."""
    found: dict[int, list[int]] = defaultdict(list)
    for stream, n in told:
        found[stream].append(n)
    return found


async def prepare(books: Books) -> None:
    serial = "bigserial primary key" if books.postgres else "integer primary key autoincrement"
    await books.run(f"create table line (id {serial}, stream bigint, n bigint, worker bigint)")


async def assert_in_order(books: Books, count: int) -> None:
    rows = await books.run("select stream, n from line order by id")
    done = by_stream((int(stream), int(n)) for stream, n in rows)
    assert {stream: sorted(told) for stream, told in done.items()} == dict(done), "out of order"
    assert all(told == list(range(len(told))) for told in done.values()), "lost or repeated"
    assert sum(map(len, done.values())) == count
    states = await books.run("select state, count(*) from duly.deliveries group by state")
    assert dict(states) == {"completed": count}
    assert (await books.run("select count(*) from duly.agenda"))[0][0] == 0


@pytest.mark.requirement("F5", "F6", "D4", "D7")
@pytest.mark.timeout(600)
async def test_kill_nine_again_and_again_keeps_every_stream_in_order(
    fleet: Fleet, books: Books
) -> None:
    chance = random.Random(20261115)
    await prepare(books)
    await deliver(books, "in-line", STREAMS, DELIVERIES)
    for _ in range(3 if books.postgres else 1):
        fleet.start()
    until_next, kills, two_at_once = 150, 0, []
    for process, words in fleet.words():
        if words[0] == "exited":
            if not await books.unfinished():
                break
            fleet.start()
        elif words[0] == "two-at-once":
            two_at_once.append(words)
        elif words[0] == "in-line":
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
    await books.until_finished(within=120)
    assert kills >= KILLS - 2, "too few kills prove nothing"
    assert two_at_once == []
    await assert_in_order(books, DELIVERIES)


@pytest.mark.requirement("F5", "D4")
@pytest.mark.parametrize("place", PLACES)
async def test_a_crash_at_this_place_keeps_the_order_and_strands_none(
    fleet: Fleet, books: Books, place: str
) -> None:
    await prepare(books)
    await deliver(books, "in-line", 5, 100)
    nth = {"handler": 30, "complete": 20}.get(place.split(".")[0], 3)
    crashing = fleet.start(DULY_FAILPOINTS=f"{place}=kill@{nth}", DULY_CONCURRENCY="20")
    assert crashing.popen.wait(20) == -9, f"{place} was never reached"
    fleet.start()
    await books.until_finished()
    await assert_in_order(books, 100)


@pytest.mark.requirement("F5", "F6")
@pytest.mark.parametrize("place", ["settle.before", "handler.exit"])
async def test_a_crash_within_a_run_repeats_some_and_reorders_none(
    fleet: Fleet, books: Books, place: str
) -> None:
    await deliver(books, "in-run", 3, 300)
    nth = 70 if place.startswith("handler") else 3
    crashing = fleet.start(DULY_FAILPOINTS=f"{place}=kill@{nth}")
    told: list[tuple[int, int]] = []
    for _process, words in fleet.words():
        if words[0] == "exited":
            assert crashing.popen.returncode == -9, f"{place} was never reached"
            fleet.start()
        elif words[0] == "in-run":
            told.append((int(words[1]), int(words[2])))
        if len(set(told)) == 300:
            break
    await books.until_finished()
    for stream, numbers in by_stream(told).items():
        first = list(dict.fromkeys(numbers))
        assert first == list(range(100)), f"stream {stream} out of order: {numbers}"
    attempts = await books.run("select attempt, count(*) from duly.deliveries group by attempt")
    assert dict(attempts) == {1: 270, 2: 30}, "a crash spends no attempt"


async def produce(books: Books, producers: int, count: int) -> list[tuple[float, float]]:
    """Deliver to one stream from several apps at once; when each call began, and when it was over.

    A call's place in the list is the number in its payload.
    """
    numbers, spans = itertools.count(), [(0.0, 0.0)] * count

    async def one_after_the_other() -> None:
        async with build(books.database) as app:
            while (n := next(numbers)) < count:
                began = time.monotonic()
                await app.deliver("in-line", {"stream": 0, "n": n}, stream="s")
                spans[n] = (began, time.monotonic())

    await asyncio.gather(*(one_after_the_other() for _ in range(producers)))
    return spans


@pytest.mark.requirement("F5")
@pytest.mark.timeout(300)
async def test_six_producers_are_processed_in_the_order_in_which_they_were_accepted(
    fleet: Fleet, books: Books
) -> None:
    """A delivery that was accepted before another was even asked for comes first."""
    await prepare(books)
    fleet.start()
    spans = await produce(books, 6, DELIVERIES // 3)
    await books.until_finished(within=200)
    rows = await books.run("select n from line order by id")
    assert sorted(row[0] for row in rows) == list(range(len(spans)))
    latest_begin = 0.0
    for (n,) in rows:
        began, over = spans[n]
        assert over >= latest_begin, f"{n} was accepted before one that was processed earlier"
        latest_begin = max(latest_begin, began)
    positions = await books.run("select position from duly.deliveries order by position")
    assert [row[0] for row in positions] == list(range(1, len(spans) + 1))
