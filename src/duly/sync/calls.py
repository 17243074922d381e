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
from contextlib import suppress
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

    def __init__(
        self, calls: Calls, make: Make[Result], stay: Stay | None, context: Context
    ) -> None:
        self.calls = calls
        self.make = make
        self.stay = stay
        self.context = context
        self._answered = answered = threading.Lock()
        answered.acquire()
        self.release = answered.release
        """Wakes the thread that waits."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run it in its own task; on the thread of the loop."""
        self.task = loop.create_task(self.run(), context=self.context)

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
        if self.task is None:
            self.release()
        elif self._answered.locked():
            self.task.cancel()

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

    def run(self, make: Make[Result], stay: Stay | None = None) -> Result:
        """Run a coroutine on the loop and return its result."""
        return Call(self, make, stay, copy_context()).wait()

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
            call.cancel()

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


class Conversation:
    """Several coroutines that run one after the other in one task, and in one context.

    A block and an iterator need that: timeouts and context variables belong to the task.
    """

    def __init__(self, calls: Calls, stay: Stay | None) -> None:
        self._calls = calls
        self._stay = stay
        self._context = copy_context()
        self._has_begun = self._is_over = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._turns: asyncio.Queue[Call[Any] | None] = asyncio.Queue()

    def run(self, make: Make[Result]) -> Result:
        """Run a coroutine in the task and return its result."""
        first = self._stay is not None and not self._has_begun
        turn = Turn(self._calls, (lambda: self._begin(make)) if first else make, self)
        return turn.wait()

    async def _begin(self, make: Make[Result]) -> Result:
        if self._stay is not None:
            await self._stay.begin()
        self._has_begun = True
        return await make()

    def end(self, make: Make[object] | None = None) -> None:
        """End the task, after one more coroutine; does not wait, and takes no lock.

        So it can be called when Python deletes an object, which may be anywhere.
        """
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._end, make)

    def _end(self, make: Make[object] | None) -> None:
        if make is not None:
            self._turns.put_nowait(Turn(self._calls, make, self))
        self._turns.put_nowait(None)
        self._is_over = True

    @property
    def context(self) -> Context:
        """The context of the task."""
        return self._context

    def take(self, turn: Turn[Any], loop: asyncio.AbstractEventLoop) -> None:
        """Queue a turn; on the thread of the loop."""
        if self._is_over:
            turn.start_alone(loop)
            return
        if self._task is None:
            self._loop = loop
            self._task = loop.create_task(self._run(), context=self._context)
        turn.task = self._task
        self._turns.put_nowait(turn)

    async def _run(self) -> None:
        try:
            while (turn := await self._turns.get()) is not None:
                await turn.run()
        finally:
            self._is_over = True
            if self._stay is not None and self._has_begun:
                self._stay.end()


class Turn(Call[Result]):
    """One coroutine of a conversation."""

    def __init__(self, calls: Calls, make: Make[Result], conversation: Conversation) -> None:
        super().__init__(calls, make, None, conversation.context)
        self._conversation = conversation

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run it in the task of its conversation; on the thread of the loop."""
        self._conversation.take(self, loop)

    def start_alone(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run it in its own task, because its conversation is over."""
        super().start(loop)
