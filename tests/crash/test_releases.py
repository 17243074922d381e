"""Releases of streams under kill -9: each happens as a whole, and once."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.crash.fleet import Fleet, StoreUnderTest
from tests.crash.worker import build
from tests.support.forks import ROOT, start

pytestmark = [pytest.mark.requirement("L4", "D4"), pytest.mark.long]
PLACES = ["stream.before", "stream.middle", "stream.after"]
BLOCKED = "select count(*) from duly.agenda where halted = 'blocked'"
RELEASED = "select count(*) from duly.audit where action = 'stream.released'"
ALERTS = "select count(*) from duly.alerts where kind = 'stream_released'"
IN_QUEUE = "select count(*) from duly.deliveries where lane is not null and state = 'pending'"


async def blocked(fleet: Fleet, store: StoreUnderTest, count: int) -> list[str]:
    """A stream whose head is dead, with others behind it; returns all ids."""
    async with build(store.database) as app:
        accepted = await app.deliver_many(
            {"target": "behind", "payload": {"n": n}, "stream": "s"} for n in range(count)
        )
    fleet.start()
    await store.until(BLOCKED, 1)
    return [each.id for each in accepted]


def release(store: StoreUnderTest, *more: str, **environment: str) -> int:
    """Run `duly streams release`; returns its exit code."""
    command = start(
        *("duly", "streams", "release", "s", *more),
        cwd=ROOT,
        env=os.environ | {"DULY_DATABASE": store.database} | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    command.communicate(timeout=60)
    code: int = command.returncode
    return code


def ran(fleet: Fleet, count: int) -> list[int]:
    """The numbers of the next deliveries that ran."""
    return [int(fleet.wait_for("behind")[1][1]) for _ in range(count)]


@pytest.mark.parametrize("place", PLACES)
async def test_a_killed_selective_release_happens_as_a_whole_or_not_at_all(
    fleet: Fleet, store: StoreUnderTest, place: str
) -> None:
    ids = await blocked(fleet, store, 6)
    assert ran(fleet, 1) == [0]
    chosen = [word for id in (ids[2], ids[4]) for word in ("--only", id)]
    code = release(store, *chosen, DULY_FAILPOINTS=f"{place}=kill")
    assert code == -signal.SIGKILL, f"{place} was never reached"
    happened = place == "stream.after"
    await store.until(IN_QUEUE, 3 if happened else 5)
    await store.until(RELEASED, int(happened))
    # The second time, the two no longer wait in the stream.
    assert release(store, *chosen) == (2 if happened else 0)
    assert sorted(ran(fleet, 2)) == [2, 4]
    await store.until(RELEASED, 1)
    assert release(store) == 0
    assert ran(fleet, 3) == [1, 3, 5]
    await store.until_finished()


@pytest.mark.parametrize("place", PLACES)
async def test_a_worker_killed_at_the_end_of_a_block_leaves_it_to_the_next(
    fleet: Fleet, store: StoreUnderTest, place: str
) -> None:
    async with build(store.database) as app:
        await app.streams.configure("s", block_for="500ms")
        await app.deliver_many(
            {"target": "behind", "payload": {"n": n}, "stream": "s"} for n in range(4)
        )
    crashing = fleet.start(DULY_FAILPOINTS=f"{place}=kill")
    assert crashing.popen.wait(30) == -signal.SIGKILL, f"{place} was never reached"
    assert ran(fleet, 1) == [0]
    happened = place == "stream.after"
    for question in (RELEASED, ALERTS):
        assert (await store.run(question))[0][0] == int(happened)
    assert (await store.run(BLOCKED))[0][0] == int(not happened)
    for _ in range(2 if store.postgres else 1):
        fleet.start()
    assert ran(fleet, 3) == [1, 2, 3]
    await store.until_finished()
    for question in (RELEASED, ALERTS):
        assert (await store.run(question))[0][0] == 1
