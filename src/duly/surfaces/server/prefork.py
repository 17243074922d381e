"""The prefork parent: starts the server processes and restarts those that die.

It runs no event loop and no application code, so little in it can fail. As process 1 of a
container it also reaps orphaned processes.
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
"""A process that ran longer than this is restarted after the shortest back-off."""
Serve = Callable[[ServerContext, bool], int]
"""Runs a child process: takes its context and whether to announce the address; returns the exit
code."""


@dataclass
class Child:
    """A running server process."""

    number: int
    started_at: float
    heard_at: float
    is_ready: bool = False


class Parent:
    """Keeps this number of `processes` running until it receives a signal.

    A single process is not restarted: the parent exits with its code. The same if the first
    process exits before it is ready, since the others would fail in the same way.
    """

    def __init__(
        self, processes: int, serve: Serve, clock: Clock, notices: Notices, drain: float
    ) -> None:
        self._processes = processes
        self._serve = serve
        self._clock = clock
        self._notices = notices
        self._patience = drain + 2 * PATIENCE_SECONDS
        self._socket: Any = None
        self._children: dict[int, Child] = {}
        self._starts_at: list[float] = []
        self._back_off = FIRST_BACK_OFF
        self._is_ready = False
        self._kill_at: float | None = None
        self._code = 0

    def run(self, socket: Any) -> int:
        """Serve on the socket, if any, until all processes have exited; returns the exit code."""
        self._socket = socket
        # The lifeline closes when the parent ends, even by SIGKILL. The other pipe carries the
        # children's notices.
        self._lifeline, self._lifeline_writer = os.pipe()
        self._notice_reader, self._notice_writer = pipe_without_waiting()
        self._signals = Signals()
        self._shared_memory = SharedMemory(self._processes)
        self._start()
        while self._children or self._starts_at:
            for number in self._signals.wait(self._notice_reader, self._seconds_to_wait()):
                self._handle_signal(number)
            self._read_notices()
            self._reap()
            self._start_due()
            self._check_children()
        return self._code

    def _start(self) -> None:
        now = self._clock.monotonic()
        # A dead process's number is used again, so that numbers stay within 1 to `processes`.
        taken = {each.number for each in self._children.values()}
        number = min(set(range(1, self._processes + 1)) - taken)
        self._children[fork(lambda: self._be_child(number))] = Child(number, now, now)

    def _be_child(self, number: int) -> int:
        self._signals.forget()
        os.close(self._lifeline_writer)
        os.close(self._notice_reader)
        notices = Notices(self._report, self._notices.watchdog)
        page = Slot(self._shared_memory, number) if self._processes > 1 else None
        return self._serve(
            ServerContext(notices, self._socket, self._lifeline, page), not self._is_ready
        )

    def _report(self, message: str) -> None:
        line = f"{os.getpid()} {message.partition(chr(10))[0]}\n"
        with contextlib.suppress(OSError):
            os.write(self._notice_writer, line.encode())

    def _seconds_to_wait(self) -> float | None:
        """Seconds until the next planned action; None if only a signal or notice can wake it."""
        moments = [*self._starts_at, *([] if self._kill_at is None else [self._kill_at])]
        if self._notices.watchdog is not None:
            moments.append(self._clock.monotonic() + self._notices.watchdog / 4)
        return max(0.0, min(moments) - self._clock.monotonic()) if moments else None

    def _handle_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            return
        if self._kill_at is not None:
            self._kill(self._children)
            os._exit(128 + number)
        self._notices.stopping()
        self._starts_at.clear()
        self._kill_at = self._clock.monotonic() + self._patience
        # Stop the children by closing the lifeline: some may have received the signal already, and
        # a second one would end them at once.
        os.close(self._lifeline_writer)

    def _read_notices(self) -> None:
        for line in read_at_once(self._notice_reader).decode().splitlines():
            number, _, message = line.partition(" ")
            child = self._children.get(int(number)) if number.isdecimal() else None
            if child is not None:
                child.heard_at = self._clock.monotonic()
                child.is_ready |= message == READY
        if not self._is_ready and any(each.is_ready for each in self._children.values()):
            self._is_ready = True
            self._notices.ready(f"{self._processes} processes")
            if self._kill_at is None:
                self._starts_at += [self._clock.monotonic()] * (self._processes - 1)

    def _reap(self) -> None:
        for number, code in ended_children():
            child = self._children.pop(number, None)
            if child is None:
                continue
            # Its last metrics are out of date.
            self._shared_memory.write(child.number, b"")
            if self._kill_at is not None:
                self._code = max(self._code, code)
            elif not self._is_ready or self._processes == 1:
                self._code = code
            else:
                self._start_later(number, code, self._clock.monotonic() - child.started_at)

    def _start_later(self, number: int, code: int, uptime: float) -> None:
        self._back_off = (
            FIRST_BACK_OFF if uptime > WELL_SECONDS else min(self._back_off * 2, LONGEST_BACK_OFF)
        )
        facts = {"process": number, "code": code, "seconds": self._back_off}
        logger.warning(
            "process %(process)s ended with code %(code)s; another starts in %(seconds)g s",
            facts,
            extra={"event": "ProcessEnded", "facts": facts},
        )
        self._starts_at.append(self._clock.monotonic() + self._back_off)

    def _start_due(self) -> None:
        now = self._clock.monotonic()
        for _ in [each for each in self._starts_at if each <= now]:
            self._start()
        self._starts_at = [each for each in self._starts_at if each > now]

    def _check_children(self) -> None:
        """Kill children that hang or do not stop in time, and report this process as alive."""
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
