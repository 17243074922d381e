"""Where the synchronous calls of an App or a Client run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from duly.errors import Conflict, OtherEventLoop
from duly.sync.background import BACKGROUND
from duly.sync.calls import Calls, Make, Put, Stay
from duly.sync.conversations import Conversation
from duly.sync.stays import Arrival, BackgroundStay, BlockStay, Moved, Resident

Result = TypeVar("Result")
Form = Callable[[], str]
"""Returns how a call is written in async code."""


class Home:
    """Runs the calls of one App or Client.

    They run on the event loop to which it belongs, if that runs in another thread, as below
    `app.worker()`. Otherwise it is opened on the background loop.
    """

    def __init__(self, resident: Resident) -> None:
        self._resident = resident
        self._stay = BackgroundStay(resident)
        self._elsewhere: Calls | None = None

    def run(self, make: Make[Result], form: Form, put: Put | None = None) -> Result:
        """Run a coroutine and return its result, if possible without a task."""
        refuse_event_loop(form)
        while True:
            calls, stay = self._place()
            try:
                return calls.run(make, stay, put)
            except Moved:
                continue

    def begin(
        self, make: Make[Result], form: Form, *, opens: bool = True
    ) -> tuple[Conversation, Result]:
        """Run a coroutine and return its result, and the task in which others can follow.

        With `opens=False` the coroutine opens the resident itself.
        """
        refuse_event_loop(form)
        while True:
            calls, stay = self._place()
            if stay is self._stay:
                stay = BlockStay(self._stay, opens=opens)
            conversation = Conversation(calls, stay)
            try:
                return conversation, conversation.run(make)
            except Moved:
                conversation.end()
            except BaseException:
                conversation.end()
                raise

    def _place(self) -> tuple[Calls, Stay | None]:
        loop = self._resident.event_loop
        if loop is None or loop is BACKGROUND.loop:
            self._resident.check_movable()
            return BACKGROUND, self._stay
        if loop.is_closed():
            raise OtherEventLoop(has_ended=True)
        if not loop.is_running():
            raise Conflict(
                "this App belongs to an event loop that is not running now; close the App before "
                "that loop stops"
            )
        if self._elsewhere is None or self._elsewhere.loop is not loop:
            self._elsewhere = Calls(loop)
        return self._elsewhere, None if self._resident.is_open else Arrival(self._resident)

    def open(self, make: Make[object], form: Form) -> None:
        """Open it with a coroutine of its own, unless it is open."""
        refuse_event_loop(form)
        while True:
            calls, stay = self._place()
            try:
                if stay is self._stay:
                    calls.run(lambda: self._stay.open_only(make))
            except Moved:
                continue
            return

    def close(self, form: Form) -> None:
        """Close it on the event loop to which it belongs, if there is one."""
        refuse_event_loop(form)
        loop = self._resident.event_loop
        if loop is not None:
            calls, stay = self._place()
            calls.run(self._stay.close if stay is self._stay else self._resident.close)

    async def move_here(self) -> None:
        """Let it leave the background loop for the running one."""
        home, running = self._resident.event_loop, asyncio.get_running_loop()
        if home is not None and home is BACKGROUND.loop and home is not running:
            leaving = asyncio.run_coroutine_threadsafe(self._stay.leave(running), home)
            await asyncio.wrap_future(leaving)


def refuse_event_loop(form: Form) -> None:
    """Raise Conflict in a thread that runs an event loop, which must not block."""
    # The public function raises an exception, which takes ten times as long.
    if asyncio._get_running_loop() is not None:
        raise Conflict(
            f"this would block the event loop that runs in this thread; write `{form()}`"
        )
