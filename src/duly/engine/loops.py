"""How loops run: each tick returns how long to wait, loops can be woken, and survive failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Protocol, TypeVar

import msgspec

from duly.domain.events import LoopFailed, StoreReachable, StoreUnreachable
from duly.errors import StoreUnavailable
from duly.ports import Emit
from duly.tracebacks import traceback_text

FIRST_BACK_OFF, LONGEST_BACK_OFF = 0.05, 5.0
Outcome = TypeVar("Outcome")


class Pause(msgspec.Struct, frozen=True):
    """How long a loop waits before its next tick, unless it is woken."""

    seconds: float


NOW = Pause(0.0)
UNTIL_WOKEN = Pause(3600.0)
REST = Pause(LONGEST_BACK_OFF)
"""How long a loop leaves a namespace alone after it failed there."""


class Loop(Protocol):
    """Work that is repeated."""

    name: str
    wake: asyncio.Event

    async def tick(self) -> Pause:
        """Do the work once; returns how long to wait."""


class Runner:
    """Runs loops until they are stopped."""

    def __init__(self, emit: Emit, chance: Callable[[], float]) -> None:
        self._emit = emit
        self._chance = chance
        self._stopping: set[str] = set()

    def stop(self, loop: Loop) -> None:
        """Let the loop end after its current tick."""
        self._stopping.add(loop.name)
        loop.wake.set()

    async def run(self, loop: Loop) -> None:
        """Tick until stopped; after a failure the loop waits and tries again."""
        failures = 0
        while loop.name not in self._stopping:
            loop.wake.clear()
            try:
                pause = await loop.tick()
            except StoreUnavailable as error:
                failures += 1
                if failures == 1:
                    self._emit(StoreUnreachable(loop=loop.name, problem=str(error)))
                pause = self._back_off(failures)
            except Exception as error:
                failures += 1
                self._emit(_failure(loop.name, error, None))
                pause = self._back_off(failures)
            else:
                if failures:
                    self._emit(StoreReachable(loop=loop.name, failures=failures))
                failures = 0
            if loop.name not in self._stopping:
                await wait(loop.wake, pause.seconds, obey_wake=not failures)

    def _back_off(self, failures: int) -> Pause:
        seconds = min(FIRST_BACK_OFF * 2.0 ** min(failures - 1, 20), LONGEST_BACK_OFF)
        return Pause(seconds * (1 + 0.5 * self._chance()))


async def contained(
    loop: str, namespace: str | None, emit: Emit, doing: Awaitable[Outcome]
) -> Outcome | Pause:
    """Await the work for one namespace; REST if it failed, so that other namespaces go on.

    An unavailable store is raised: it affects all of them.
    """
    try:
        return await doing
    except StoreUnavailable:
        raise
    except Exception as error:
        emit(_failure(loop, error, namespace))
        return REST


def _failure(loop: str, error: Exception, namespace: str | None) -> LoopFailed:
    return LoopFailed(
        loop=loop,
        problem=f"{type(error).__name__}: {error}",
        traceback=traceback_text(error, own=True),
        namespace=namespace,
    )


async def wait(wake: asyncio.Event, seconds: float, *, obey_wake: bool = True) -> None:
    """Wait that long or until woken; other tasks always get to run."""
    if seconds <= 0:
        await YieldOnce()
        return
    event = wake if obey_wake else asyncio.Event()
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


class YieldOnce:
    """Awaiting it lets other tasks run once."""

    def __await__(self) -> Generator[None, None, None]:
        yield
