"""kill -9 of workers: the limits of a handler are never exceeded, and no slot is lost."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.fleet import Fleet, Process, StoreUnderTest
from tests.crash.limit_receiver import PLACE, LimitReceiver
from tests.crash.test_kill import workers_for
from tests.crash.worker import build

pytestmark = [pytest.mark.long, pytest.mark.requirement("P6")]
IN_FLIGHT, RATE = 5, 50
KEY_IN_FLIGHT = 2


@pytest.fixture
def receiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LimitReceiver]:
    found = LimitReceiver(tmp_path / "receiver")
    monkeypatch.setenv(PLACE, found.place)
    yield found
    found.close()


def kill(process: Process, receiver: LimitReceiver) -> None:
    process.kill()
    process.popen.wait(10)
    receiver.forget(process.popen.pid)


@pytest.mark.timeout(180)
async def test_killed_workers_neither_exceed_nor_leak_an_in_flight_limit(
    fleet: Fleet, store: StoreUnderTest, receiver: LimitReceiver
) -> None:
    chance = random.Random(20261118)
    await store.deliver("crowded", 700)
    for _ in range(workers_for(store)):
        fleet.start()
    began = 0
    for _ in range(6):
        began += chance.randrange(20, 60)
        receiver.wait_for_starts(began)
        kill(chance.choice([each for each in fleet.processes if each.alive]), receiver)
        fleet.start()
        began = len(receiver.began_on)
    assert receiver.most == IN_FLIGHT, "at the receiver"
    receiver.most = 0
    await store.until_finished()
    assert receiver.most == IN_FLIGHT, "the slots of the dead workers came back"
    states = dict(await store.run("select state, count(*) from duly.deliveries group by state"))
    assert states == {"completed": 700}


@pytest.mark.timeout(120)
async def test_killed_workers_do_not_exceed_a_rate(
    fleet: Fleet, store: StoreUnderTest, receiver: LimitReceiver
) -> None:
    await store.deliver("paced", 400)
    for _ in range(workers_for(store)):
        fleet.start()
    for count in (60, 150, 250):
        receiver.wait_for_starts(count)
        kill(next(each for each in fleet.processes if each.alive), receiver)
        fleet.start()
    await store.until_finished()
    times = receiver.began_on
    for first, start in enumerate(times):
        within = sum(1 for each in times[first:] if each < start + 1)
        # A process that is held up, here by the start of others, starts what is due at once.
        assert within <= RATE * 1.3, "in one second"
    assert len(times) / (times[-1] - times[0]) <= RATE * 1.05


@pytest.mark.timeout(180)
async def test_killed_workers_neither_exceed_nor_leak_the_limit_of_a_key(
    fleet: Fleet, store: StoreUnderTest, receiver: LimitReceiver
) -> None:
    chance = random.Random(20261119)
    keys = ["flooded"] * 300 + [f"customer:{number % 40}" for number in range(200)]
    async with build(store.database) as app:
        await app.deliver_many(
            {"target": "keyed", "payload": key, "limit_key": key} for key in keys
        )
    for _ in range(workers_for(store)):
        fleet.start()
    began = 0
    for _ in range(6):
        began += chance.randrange(10, 30)
        receiver.wait_for_starts(began)
        kill(chance.choice([each for each in fleet.processes if each.alive]), receiver)
        fleet.start()
        began = len(receiver.began_on)
    await store.until_finished()
    assert receiver.most_of["flooded"] == KEY_IN_FLIGHT, "never more, and both slots were used"
    assert max(receiver.most_of.values()) == KEY_IN_FLIGHT, "at the receiver"
    states = dict(await store.run("select state, count(*) from duly.deliveries group by state"))
    assert states == {"completed": len(keys)}
