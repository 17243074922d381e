"""The terminal: the alternate screen, single keys and the size; restored however it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.live import Live

from duly.surfaces.cli.top.events import Event, Pressed, Resized, Stopped
from duly.surfaces.cli.top.keys import KeyReader

ESCAPE_SECONDS = 0.05
"""A sequence of a key follows Escape within this."""
USUAL = (80, 24)


class Screen:
    """The terminal while `duly top` has it; keys and sizes are passed on as events."""

    def __init__(self, put: Callable[[Event], None]) -> None:
        self._put = put
        self._keys = KeyReader()
        self._loop = asyncio.get_running_loop()
        self._input = sys.stdin.fileno()
        self._console = Console(file=sys.stdout)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._before: list[Any] = []
        self._flush: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._input)
        try:
            self._take()
            self._loop.add_reader(self._input, self._read)
            self._loop.add_signal_handler(signal.SIGWINCH, self.measure)
            self._loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        except BaseException:
            self._give_back()
            raise
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        for number in (signal.SIGWINCH, signal.SIGTSTP):
            self._loop.remove_signal_handler(number)
        self._loop.remove_reader(self._input)
        self._give_back()

    def draw(self, picture: RenderableType) -> None:
        """Show the picture."""
        self._live.update(picture, refresh=True)

    def measure(self) -> None:
        """Report the size of the terminal."""
        size = os.get_terminal_size(sys.__stdout__.fileno()) if sys.__stdout__ else USUAL
        width, height = (found or usual for found, usual in zip(size, USUAL, strict=True))
        self._console.size = (width, height)
        self._put(Resized(width, height))

    def _take(self) -> None:
        # Keys that were pressed meanwhile are kept.
        tty.setcbreak(self._input, termios.TCSANOW)
        self.measure()
        self._live.start()

    def _give_back(self) -> None:
        try:
            self._live.stop()
        finally:
            termios.tcsetattr(self._input, termios.TCSANOW, self._before)

    def _suspend(self) -> None:
        """Ctrl-Z: the shell gets the terminal until `fg`."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()

    def _read(self) -> None:
        # The end of the input, or an error: the terminal was closed.
        try:
            data = os.read(self._input, 1000)
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._input)
            self._put(Stopped())
        self._press(self._keys.feed(data))
        if self._flush is not None:
            self._flush.cancel()
        if self._keys.is_waiting:
            flush = lambda: self._press(self._keys.flush())  # noqa: E731
            self._flush = self._loop.call_later(ESCAPE_SECONDS, flush)

    def _press(self, keys: list[str]) -> None:
        for key in keys:
            self._put(Pressed(key))
