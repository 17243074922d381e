"""Runs coroutines on the event loop of another thread, and waits for their results.

`asyncio.run_coroutine_threadsafe` wakes the loop for every call. Here all calls that arrive before
the loop has woken up share one wake-up. Callers that are answered together are woken together, and
the loop sleeps until they have called again, or for a millisecond: threads and loop would otherwise
compete for Python's global lock, and the store would write two batches instead of one.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import Any, Generic, Protocol, TypeVar

from duly.errors import StoreUnavailable

LOOK_SECONDS = 1.0
"""How often a waiting thread checks that its event loop still runs."""
GATHER_SECONDS = 0.001
"""Of several callers that were answered together, the first wait until for so long no other calls.
"""
CANCEL_SECONDS = 5.0
"""How long an interrupted caller waits for the end of its call."""

Result = TypeVar("Result")
Make = Callable[[], Awaitable[Result]]
"""Makes the awaitable, on the thread of the event loop."""
Put = Callable[[Any], bool]
"""Takes the call and answers it later, without a task; False if that is not possible now."""


class Stay(Protocol):
    """The stay of an App or a Client on an event loop."""

    def begin_at_once(self) -> bool:
        """Called before each call; False if it has to wait in `begin`."""

    async def begin(self) -> None:
        """Called before a call that has to wait."""

    def end(self) -> None:
        """Called after each call that has begun."""


class Call(Generic[Result]):
    """One call, and the thread that waits for it.

    It sees the context variables of its thread, and the thread sees those that it sets, as with
    `await`.
    """

    result: Result
    task: asyncio.Task[None] | None = None
    error: BaseException | None = None
    is_cancelled = False
    is_put = False
    """Whether it is answered without a task."""
    has_ended = False
    """Whether such a call has been answered."""

    def __init__(
        self,
        calls: Calls,
        make: Make[Result],
        stay: Stay | None,
        context: Context,
        put: Put | None = None,
    ) -> None:
        self.calls = calls
        self.make = make
        self.put = put
        self.stay = stay
        self.context = context
        self._answered = answered = threading.Lock()
        answered.acquire()
        self.release = answered.release
        """Wakes the thread that waits."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run it, in its own task if it has to wait for anything; on the thread of the loop."""
        if self.put is None or not self._is_put(self.put):
            self.task = loop.create_task(self.run(), context=self.context)

    def _is_put(self, put: Put) -> bool:
        if self.stay is not None and not self.stay.begin_at_once():
            return False
        try:
            self.is_put = self.context.run(put, self)
        except BaseException as error:
            self.is_put = True
            self.set_exception(error)
            return True
        if not self.is_put and self.stay is not None:
            self.stay.end()
        return self.is_put

    def done(self) -> bool:
        """Whether nobody waits for its answer any more."""
        return self.is_cancelled or self.has_ended

    def set_result(self, result: Result) -> None:
        """Answer a call that has no task."""
        self.result = result
        self._end()

    def set_exception(self, exception: BaseException) -> None:
        """Answer it with an error."""
        self.error = exception
        self._end()

    def _end(self) -> None:
        self.has_ended = True
        if self.stay is not None:
            self.stay.end()
        self.calls.answer(self)

    async def run(self) -> None:
        """Run it, and wake the thread that waits."""
        try:
            if self.stay is None:
                self.result = await self.make()
            else:
                if not self.stay.begin_at_once():
                    await self.stay.begin()
                try:
                    self.result = await self.make()
                finally:
                    self.stay.end()
        except BaseException as error:
            self.error = error  # raised in the thread that waits
        finally:
            self.calls.answer(self)

    def wait(self) -> Result:
        """Start it, and return its result or its error; an interrupted wait cancels it."""
        try:
            self.calls.submit(self)
            while not self._answered.acquire(timeout=LOOK_SECONDS):
                if self._is_lost() and not self._answered.acquire(blocking=False):
                    self.error = asyncio.CancelledError()
                    break
        except StoreUnavailable:
            raise  # the loop has ended
        except BaseException:  # KeyboardInterrupt, or an exception of another signal handler
            self.calls.cancel(self)
            self._answered.acquire(timeout=CANCEL_SECONDS)
            raise
        _adopt(self.context)
        if self.error is None:
            return self.result
        try:
            if isinstance(self.error, asyncio.CancelledError):
                raise ended() from self.error
            raise self.error
        finally:
            self.error = None  # its traceback has this frame: a reference cycle

    def cancel(self) -> None:
        """Cancel it, whether or not it has started; on the thread of the loop."""
        self.is_cancelled = True
        if self.is_put:
            if not self.has_ended:
                self._end()
        elif self.task is None:
            self.release()
        elif self._answered.locked():
            self.task.cancel()

    def abandon(self) -> None:
        """Cancel it when its loop is closed; on the thread that waits."""
        self.is_cancelled = True
        if self._answered.locked():
            self.release()

    def _is_lost(self) -> bool:
        has_ended = self.task is not None and self.task.done()
        return has_ended or not self.calls.is_alive


def ended() -> StoreUnavailable:
    """The error of a call whose event loop ended before it."""
    return StoreUnavailable(
        "the event loop of this App ended during the call, which may have been carried out"
    )


def _adopt(context: Context) -> None:
    """Set the context variables that the call has set."""
    for variable, value in context.items():
        if variable.get(_MISSING) is not value:
            variable.set(value)


_MISSING: Any = object()


class Calls:
    """Passes calls from any thread to one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[Call[Any]] = deque()
        self._answered: list[Call[Any]] = []
        self._is_woken = False
        self._expected = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the calls can still be answered."""
        return self.loop.is_running()

    def run(self, make: Make[Result], stay: Stay | None = None, put: Put | None = None) -> Result:
        """Run a coroutine on the loop and return its result, if possible without a task."""
        return Call(self, make, stay, copy_context(), put).wait()

    def submit(self, call: Call[Any]) -> None:
        """Start the call on the loop."""
        self._waiting.append(call)
        # In this order: a call that `start_all` does not find finds what `start_all` has set.
        if not self._is_woken and len(self._waiting) >= self._expected:
            self._wake()

    def answer(self, call: Call[Any]) -> None:
        """Wake the caller, together with all others of this iteration of the loop."""
        self._answered.append(call)
        if len(self._answered) == 1:
            self.loop.call_soon(self._release_all)

    def _release_all(self) -> None:
        answered, self._answered = self._answered, []
        self._expected += len(answered)
        if self._expected > 1 and self._timer is None:
            self._timer = self.loop.call_later(GATHER_SECONDS, self._look, 0)
        for call in answered:
            call.release()

    def cancel(self, call: Call[Any]) -> None:
        """Cancel the call on the loop."""
        try:
            self.loop.call_soon_threadsafe(call.cancel)
        except (RuntimeError, AttributeError):  # the loop is closed, or was never started
            call.abandon()

    def _wake(self) -> None:
        self._is_woken = True
        try:
            self.loop.call_soon_threadsafe(self.start_all)
        except BaseException as error:
            self._is_woken = False  # otherwise no call would ever wake the loop
            if isinstance(error, RuntimeError):
                raise ended() from error
            raise

    def _look(self, before: int) -> None:
        """Wait on as long as callers come back, else start the calls."""
        if before < len(self._waiting) < self._expected:
            self._timer = self.loop.call_later(GATHER_SECONDS, self._look, len(self._waiting))
        else:
            self.start_all()

    def expect_nobody(self) -> None:
        """Wake the loop for the next call, whoever makes it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._expected = 0
        self._is_woken = False

    def start_all(self) -> None:
        """Start the waiting calls; on the thread of the loop."""
        self.expect_nobody()
        while self._waiting:
            call = self._waiting.popleft()
            if not call.is_cancelled:
                call.start(self.loop)
