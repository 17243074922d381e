"""Several coroutines of a thread that run one after the other in one task of the event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any

from duly.sync.calls import Call, Calls, Make, Result, Stay


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
