"""An event loop on virtual time, in which a seed decides which ready task runs next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from random import Random
from typing import Any, NoReturn, TypeVar

Result = TypeVar("Result")
MOST_STEPS = 2_000_000
"""Steps after which a run is taken for one that never ends."""


class Endless(AssertionError):
    """The run does not end: tasks go on without time passing, or too long."""


class Ready(deque[Any]):
    """The callbacks that are ready; which is next is drawn.

    asyncio runs them in their order. What depends on more than that each runs once would break as
    soon as a reader of a socket is faster, so here any may be first; mostly the order is kept.
    """

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random

    def popleft(self) -> Any:
        """The next callback."""
        if len(self) > 1 and self._random.random() < 0.2:
            self.rotate(-self._random.randrange(len(self)))
        return super().popleft()


class SimulatedLoop(asyncio.BaseEventLoop):
    """Time passes only when nothing is ready, and then at once to the next timer."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._now = 0.0
        self._steps = 0
        self._selector = self
        self._clock_resolution = 1e-6
        self._ready = Ready(random)

    def time(self) -> float:
        """The virtual time in seconds."""
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """As a selector: nothing ever arrives, so the wait is over at once."""
        self._steps += 1
        if timeout is None:
            raise Endless("nothing is ready, and no timer will make it so")
        if self._steps > MOST_STEPS:
            raise Endless("too many steps")
        # Never less than the next timer, or it would be looked for again and again.
        self._now += max(timeout, self._clock_resolution if timeout else 0.0)
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """Nothing ever arrives."""

    def _write_to_self(self) -> None:
        """There is no other thread to wake this one."""

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Result], *args: Any
    ) -> asyncio.Future[Result]:
        """Call it here: threads would not do the same in the next run."""
        future: asyncio.Future[Result] = self.create_future()
        try:
            future.set_result(func(*args))
        except BaseException as error:
            future.set_exception(error)
        return future

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise AssertionError("a simulated process has no real sockets, files or processes")

    create_connection = create_server = sock_connect = add_reader = _refuse  # type: ignore[assignment]


def simulate(random: Random, main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run a coroutine on a loop of its own, and cancel what it leaves behind."""
    loop = SimulatedLoop(random)
    try:
        asyncio.set_event_loop(loop)
        try:
            return loop.run_until_complete(main())
        finally:
            _cancel_all(loop)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """What a killed process left would complain when it is collected."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.set_exception_handler(lambda _loop, _context: None)
        loop.run_until_complete(asyncio.wait(left, timeout=60))
