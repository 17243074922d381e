"""A small parent of several processes that serve: it starts them, and starts those anew that die.

It runs no event loop and no code of the app, so there is little in it that could fail. As the first
process of a container it also has the orphans of all others, and lets them go.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from duly.ports import Clock
from duly.surfaces.process.notify import READY, Notices
from duly.surfaces.process.shared_memory import SharedMemory, Slot
from duly.surfaces.server.serving import PATIENCE_SECONDS, ServerContext
from duly.system import Signals, ended_children, fork, pipe_without_waiting, read_at_once

logger = logging.getLogger("duly.serve")

FIRST_BACK_OFF, LONGEST_BACK_OFF = 0.1, 30.0
WELL_SECONDS = 60.0
"""A process that lived so long is started anew without delay."""
Serve = Callable[[ServerContext, bool], int]
"""What a child does at its place, and whether it is to say where it listens."""


@dataclass
class Child:
    """A process that serves."""

    number: int
    started_at: float
    heard_at: float
    is_ready: bool = False


class Parent:
    """Keeps `many` processes going until a signal comes.

    One alone is not started anew: its end is the parent's, with the same code. So is the end of the
    first before it serves: whatever is wrong would be so for all of them.
    """

    def __init__(
        self, many: int, serve: Serve, clock: Clock, notices: Notices, drain: float
    ) -> None:
        self._many = many
        self._serve = serve
        self._clock = clock
        self._notices = notices
        self._patience = drain + 2 * PATIENCE_SECONDS
        self._socket: Any = None
        self._children: dict[int, Child] = {}
        self._due: list[float] = []
        self._back_off = FIRST_BACK_OFF
        self._serves = False
        self._kill_at: float | None = None
        self._code = 0

    def run(self, socket: Any) -> int:
        """Serve on the socket, if there is one, until all have ended; returns the exit code."""
        self._socket = socket
        # The one ends when we do, however we do; the other is how we hear of the children.
        self._lifeline, self._held = os.pipe()
        self._reports, self._reporting = pipe_without_waiting()
        self._signals = Signals()
        self._board = SharedMemory(self._many)
        self._start()
        while self._children or self._due:
            for number in self._signals.wait(self._reports, self._seconds()):
                self._heed(number)
            self._hear()
            self._bury()
            self._start_due()
            self._watch()
        return self._code

    def _start(self) -> None:
        now = self._clock.monotonic()
        # The place of one that died, so that there are never more of them than processes.
        taken = {each.number for each in self._children.values()}
        number = min(set(range(1, self._many + 1)) - taken)
        self._children[fork(lambda: self._be_child(number))] = Child(number, now, now)

    def _be_child(self, number: int) -> int:
        self._signals.forget()
        os.close(self._held)
        os.close(self._reports)
        notices = Notices(self._report, self._notices.watchdog)
        page = Slot(self._board, number) if self._many > 1 else None
        return self._serve(
            ServerContext(notices, self._socket, self._lifeline, page), not self._serves
        )

    def _report(self, message: str) -> None:
        """Tell the parent, from a child."""
        line = f"{os.getpid()} {message.partition(chr(10))[0]}\n"
        with contextlib.suppress(OSError):
            os.write(self._reporting, line.encode())

    def _seconds(self) -> float | None:
        """How long there is nothing to do unless something comes."""
        moments = [*self._due, *([] if self._kill_at is None else [self._kill_at])]
        if self._notices.watchdog is not None:
            moments.append(self._clock.monotonic() + self._notices.watchdog / 4)
        return max(0.0, min(moments) - self._clock.monotonic()) if moments else None

    def _heed(self, number: int) -> None:
        if number == signal.SIGCHLD:
            return
        if self._kill_at is not None:
            self._kill(self._children)
            os._exit(128 + number)
        self._notices.stopping()
        self._due.clear()
        self._kill_at = self._clock.monotonic() + self._patience
        # They stop as if we were gone: a signal might be the second that they get.
        os.close(self._held)

    def _hear(self) -> None:
        for line in read_at_once(self._reports).decode().splitlines():
            number, _, message = line.partition(" ")
            child = self._children.get(int(number)) if number.isdecimal() else None
            if child is not None:
                child.heard_at = self._clock.monotonic()
                child.is_ready |= message == READY
        if not self._serves and any(each.is_ready for each in self._children.values()):
            self._serves = True
            self._notices.ready(f"{self._many} processes")
            if self._kill_at is None:
                self._due += [self._clock.monotonic()] * (self._many - 1)

    def _bury(self) -> None:
        for number, code in ended_children():
            child = self._children.pop(number, None)
            if child is None:
                continue
            # What it said last of how it stands is not so any more.
            self._board.write(child.number, b"")
            if self._kill_at is not None:
                self._code = max(self._code, code)
            elif not self._serves or self._many == 1:
                self._code = code
            else:
                self._start_later(number, code, self._clock.monotonic() - child.started_at)

    def _start_later(self, number: int, code: int, lived: float) -> None:
        self._back_off = (
            FIRST_BACK_OFF if lived > WELL_SECONDS else min(self._back_off * 2, LONGEST_BACK_OFF)
        )
        facts = {"process": number, "code": code, "seconds": self._back_off}
        logger.warning(
            "process %(process)s ended with code %(code)s; another starts in %(seconds)g s",
            facts,
            extra={"event": "ProcessEnded", "facts": facts},
        )
        self._due.append(self._clock.monotonic() + self._back_off)

    def _start_due(self) -> None:
        now = self._clock.monotonic()
        for _ in [each for each in self._due if each <= now]:
            self._start()
        self._due = [each for each in self._due if each > now]

    def _watch(self) -> None:
        """Kill what hangs, and what does not end in time; say that this one does not hang."""
        now, watchdog = self._clock.monotonic(), self._notices.watchdog
        if self._kill_at is not None and now >= self._kill_at:
            self._kill(self._children)
        if watchdog is not None:
            self._notices.alive()
            silent = [
                number
                for number, each in self._children.items()
                if each.is_ready and now - each.heard_at > watchdog
            ]
            self._kill(silent)

    def _kill(self, numbers: Any) -> None:
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
