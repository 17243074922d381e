"""The lease and the heart that renews it."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from duly.engine.lease import Heartbeat, Lease
from duly.errors import StoreUnavailable
from duly.testing import VirtualClock

pytestmark = pytest.mark.requirement("D7")


class Beaten:
    """A roster that notes who beats, from which thread, and answers as told."""

    def __init__(self, *answers: bool | Exception) -> None:
        self.answers = list(answers)
        self.threads: list[str] = []
        self.done = threading.Event()

    async def beat(self, worker: int) -> bool:
        self.threads.append(threading.current_thread().name)
        answer = self.answers.pop(0) if self.answers else True
        if not self.answers:
            self.done.set()
        if isinstance(answer, Exception):
            raise answer
        return answer


class OneStore:
    """A store of which only the roster is used."""

    def __init__(self, workers: Beaten, one_loop: bool = False) -> None:
        self.workers = workers
        self.one_loop = one_loop

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[Beaten]:
        yield self.workers


async def beaten(workers: Beaten, *, one_loop: bool = False, seconds: float = 0.03) -> Lease:
    """Beat until the roster has nothing left to answer."""
    clock: Any = VirtualClock()
    lease = Lease(7, seconds, clock)
    store: Any = OneStore(workers, one_loop)
    lost = asyncio.Event()
    heart = Heartbeat(lease, store, clock, lost.set)
    heart.start()
    loop = asyncio.get_running_loop()
    assert await loop.run_in_executor(None, workers.done.wait, 10)
    await heart.stop()
    if lease.lost:
        await asyncio.wait_for(lost.wait(), 10)
    return lease


def test_a_lease_holds_until_its_time_is_over() -> None:
    clock = VirtualClock()
    lease = Lease(7, 12.0, clock)
    clock.advance(11.9)
    assert lease.holds()
    clock.advance(0.1)
    assert not lease.holds()
    lease.renew(asked_at=clock.monotonic() - 5)
    clock.advance(6.9)
    assert lease.holds()
    clock.advance(0.1)
    assert not lease.holds()


def test_a_lost_lease_never_holds_again() -> None:
    clock = VirtualClock()
    lease = Lease(7, 12.0, clock)
    lease.lost = True
    lease.renew(clock.monotonic())
    assert not lease.holds()


async def test_the_heart_beats_on_a_thread_of_its_own() -> None:
    workers = Beaten(True, True, True)
    lease = await beaten(workers)
    assert set(workers.threads) == {"duly-heartbeat"}
    assert not lease.lost


async def test_where_the_store_belongs_to_one_loop_the_heart_beats_there() -> None:
    workers = Beaten(True, True, True)
    lease = await beaten(workers, one_loop=True)
    assert set(workers.threads) == {threading.current_thread().name}
    assert not lease.lost


@pytest.mark.parametrize("one_loop", [False, True])
async def test_a_worker_declared_dead_hears_of_it(one_loop: bool) -> None:
    lease = await beaten(Beaten(True, False), one_loop=one_loop)
    assert lease.lost


@pytest.mark.parametrize("error", [StoreUnavailable("away"), RuntimeError("anything")])
async def test_a_beat_that_failed_is_only_a_beat_missed(error: Exception) -> None:
    workers = Beaten(error, error, True)
    lease = await beaten(workers)
    assert len(workers.threads) >= 3
    assert not lease.lost
