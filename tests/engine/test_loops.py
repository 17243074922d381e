"""The runner of all loops."""

import asyncio
from collections.abc import Callable

import pytest

from duly.domain.events import Event, LoopFailed, StoreReachable, StoreUnreachable
from duly.engine.loops import LONGEST_BACK_OFF, NOW, Pause, Runner
from duly.errors import StoreUnavailable


class Scripted:
    """A loop with scripted ticks, which stops itself after the last."""

    name = "scripted"

    def __init__(self, *script: Pause | Exception | Callable[[], Pause]) -> None:
        self.wake = asyncio.Event()
        self.script = list(script)
        self.ticks = 0
        self.runner: Runner | None = None

    async def tick(self) -> Pause:
        self.ticks += 1
        step = self.script.pop(0)
        if not self.script:
            assert self.runner is not None
            self.runner.stop(self)
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, Pause) else step()


async def run(loop: Scripted) -> list[Event]:
    events: list[Event] = []
    loop.runner = Runner(events.append, lambda: 0.0)
    await asyncio.wait_for(loop.runner.run(loop), 10)
    return events


@pytest.mark.requirement("D14")
async def test_an_unavailable_store_is_reported_once_and_does_not_end_the_loop() -> None:
    unavailable = StoreUnavailable("no route")
    events = await run(Scripted(unavailable, unavailable, NOW))
    assert events == [
        StoreUnreachable(loop="scripted", problem="no route"),
        StoreReachable(loop="scripted", failures=2),
    ]


@pytest.mark.requirement("D14")
async def test_any_other_error_is_reported_and_does_not_end_the_loop() -> None:
    events = await run(Scripted(ValueError("odd"), NOW))
    failed = events[0]
    assert isinstance(failed, LoopFailed)
    assert (failed.loop, failed.problem) == ("scripted", "ValueError: odd")
    assert "in tick" in (failed.traceback or "")


@pytest.mark.requirement("D14")
def test_the_wait_after_failures_grows_to_a_limit() -> None:
    runner = Runner(lambda event: None, lambda: 0.0)
    waits = [runner._back_off(failures).seconds for failures in range(1, 200)]
    assert waits == sorted(waits)
    assert waits[0] < 0.1
    assert waits[-1] == LONGEST_BACK_OFF


async def test_a_wake_up_ends_the_pause() -> None:
    loop = Scripted(Pause(3600), NOW)
    task = asyncio.create_task(run(loop))
    while loop.ticks == 0:
        await asyncio.tasks.sleep(0)
    loop.wake.set()
    await asyncio.wait_for(task, 10)
    assert loop.ticks == 2


async def test_a_wake_up_during_the_tick_is_not_lost() -> None:
    loop = Scripted(NOW, NOW)

    def wake() -> Pause:
        loop.wake.set()
        return Pause(3600)

    loop.script = [wake, NOW]
    await run(loop)
    assert loop.ticks == 2


async def test_a_stop_ends_the_pause() -> None:
    loop = Scripted(Pause(3600), Pause(3600), NOW)
    loop.runner = runner = Runner(lambda event: None, lambda: 0.0)
    task = asyncio.create_task(runner.run(loop))
    while loop.ticks == 0:
        await asyncio.tasks.sleep(0)
    runner.stop(loop)
    await asyncio.wait_for(task, 10)
    assert loop.ticks == 1
