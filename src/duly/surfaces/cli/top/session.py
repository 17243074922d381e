"""Runs `duly top`: events change the state, which is drawn; it reads and moves in tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from duly.errors import DulyError, InvalidInput, NotFound
from duly.signals import listen_for_signals
from duly.surfaces.cli.terminal.flags import Backend
from duly.surfaces.cli.terminal.output import print_message
from duly.surfaces.cli.top.content import Move, Verb
from duly.surfaces.cli.top.drawing import drawn
from duly.surfaces.cli.top.events import Event, Moved, NotRead, Progressed, Stopped, Waited
from duly.surfaces.cli.top.model import Model, updated
from duly.surfaces.cli.top.moves import perform
from duly.surfaces.cli.top.reading import read
from duly.surfaces.cli.top.screen import Screen
from duly.surfaces.cli.top.views import View

LOOK_SECONDS = 2.0
PAUSE_FACTOR = 3
"""How much longer than a reading the pause after it is, at least."""
TICK_SECONDS = 1.0
IN_PROGRESS = {Verb.RETRY: "retrying", Verb.PAUSE: "pausing", Verb.RESUME: "resuming"}
LOST = (DulyError, OSError)
"""What is shown while it lasts; any other error is a defect and ends the command."""


async def run(app: Backend) -> None:
    """Show the dashboard until the user leaves; then the terminal is as it was before."""
    events: asyncio.Queue[Event] = asyncio.Queue()
    stop = partial(events.put_nowait, Stopped())
    with listen_for_signals(stop), Screen(events.put_nowait) as screen:
        session = Session(app, screen, events)
        try:
            running = await session.run()
        finally:
            session.stop()
    await session.ended()
    if running:
        print_message(f"stopped while {running}; to continue, do the same again")


class Session:
    """One run of the dashboard: the loop, and the tasks beside it."""

    def __init__(self, app: Backend, screen: Screen, events: asyncio.Queue[Event]) -> None:
        self._app = app
        self._screen = screen
        self._events = events
        self._tasks: set[asyncio.Task[None]] = set()
        self._reading: asyncio.Task[None] | None = None
        self._asked_at: float | None = None
        self._failure: BaseException | None = None

    async def run(self) -> str:
        """Handle events until the user leaves; returns the move that is still under way."""
        model = Model()
        self._start(self._tick())
        self._read_anew(model.view)
        while not model.is_leaving:
            model = self._handled(model, await self._events.get())
            if self._events.empty():
                self._screen.draw(drawn(model))
            if self._failure is not None:
                raise self._failure
        return model.running

    def _handled(self, model: Model, event: Event) -> Model:
        before, model = model, updated(model, event)
        if model.ordered is not None:
            self._start(self._move(model.ordered))
            model = replace(model, ordered=None, running=_in_words(model.ordered))
        if model.view != before.view or isinstance(event, Moved):
            self._read_anew(model.view)
        return model

    def _read_anew(self, view: View) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._reading = self._start(self._keep_reading(view))

    async def _keep_reading(self, view: View) -> None:
        clock = self._app.clock
        while True:
            self._asked_at = began = clock.monotonic()
            try:
                self._events.put_nowait(await read(self._app, view))
            except LOST as error:
                self._events.put_nowait(NotRead(view, _described(error)))
            self._asked_at = None
            # A store that is slow to answer is not asked all the time.
            await clock.sleep(max(LOOK_SECONDS, (clock.monotonic() - began) * PAUSE_FACTOR))

    async def _move(self, move: Move) -> None:
        try:
            text = await perform(self._app, move, self._report)
        except LOST as error:
            text = f"error: {error}"
        self._events.put_nowait(Moved(text))

    def _report(self, text: str) -> None:
        self._events.put_nowait(Progressed(text))

    async def _tick(self) -> None:
        while True:
            await self._app.clock.sleep(TICK_SECONDS)
            self._screen.measure()
            asked_at, now = self._asked_at, self._app.clock.monotonic()
            self._events.put_nowait(Waited(0.0 if asked_at is None else now - asked_at))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = error
            self._events.put_nowait(Stopped())

    def stop(self) -> None:
        """Cancel what is under way; a bulk operation ends after its present batch."""
        for task in list(self._tasks):
            task.cancel()

    async def ended(self) -> None:
        """Wait for the cancelled tasks."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _described(error: Exception) -> str:
    """The problem, and whether it may end by itself."""
    is_final = isinstance(error, InvalidInput | NotFound)
    return str(error) if is_final else f"trying again: {error}"


def _in_words(move: Move) -> str:
    return f"{IN_PROGRESS[move.verb]} {move.name}"
