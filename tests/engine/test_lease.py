"""The lease, and the heartbeat that renews it."""

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


class FakeWorkers:
    """A workers table that records the heartbeats' threads and returns given answers."""

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


class FakeStore:
    """A store of which only the workers are used."""

    def __init__(self, workers: FakeWorkers, one_loop: bool = False) -> None:
        self.workers = workers
        self.one_loop = one_loop

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[FakeWorkers]:
        yield self.workers


async def beat_all(workers: FakeWorkers, *, one_loop: bool = False, seconds: float = 0.03) -> Lease:
    """Send heartbeats until all answers are used."""
    clock: Any = VirtualClock()
    lease = Lease(7, seconds, clock)
    store: Any = FakeStore(workers, one_loop)
    lost = asyncio.Event()
    heartbeat = Heartbeat(lease, store, clock, lost.set)
    heartbeat.start()
    loop = asyncio.get_running_loop()
    assert await loop.run_in_executor(None, workers.done.wait, 10)
    await heartbeat.stop()
    if lease.lost:
        await asyncio.wait_for(lost.wait(), 10)
    return lease


def test_a_lease_is_valid_until_its_time_is_over() -> None:
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


def test_a_lost_lease_is_never_valid_again() -> None:
    clock = VirtualClock()
    lease = Lease(7, 12.0, clock)
    lease.lost = True
    lease.renew(clock.monotonic())
    assert not lease.holds()


async def test_the_heartbeat_runs_on_its_own_thread() -> None:
    workers = FakeWorkers(True, True, True)
    lease = await beat_all(workers)
    assert set(workers.threads) == {"duly-heartbeat"}
    assert not lease.lost


async def test_the_heartbeat_runs_on_the_loop_of_a_store_that_belongs_to_one_loop() -> None:
    workers = FakeWorkers(True, True, True)
    lease = await beat_all(workers, one_loop=True)
    assert set(workers.threads) == {threading.current_thread().name}
    assert not lease.lost


@pytest.mark.parametrize("one_loop", [False, True])
async def test_a_worker_that_was_declared_dead_loses_its_lease(one_loop: bool) -> None:
    lease = await beat_all(FakeWorkers(True, False), one_loop=one_loop)
    assert lease.lost


@pytest.mark.parametrize("error", [StoreUnavailable("away"), RuntimeError("anything")])
async def test_a_failed_heartbeat_does_not_lose_the_lease(error: Exception) -> None:
    workers = FakeWorkers(error, error, True)
    lease = await beat_all(workers)
    assert len(workers.threads) >= 3
    assert not lease.lost
