"""SIGTERM and SIGINT, for whatever works until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


class StopSignals:
    """SIGTERM and SIGINT of this process, and what they stop; the second one ends the process."""

    NUMBERS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self._stops: list[Callable[[], object]] = []
        self._before: dict[int, Any] = {}
        self._heard = False

    def add(self, stop: Callable[[], object], numbers: Iterable[int]) -> None:
        """Take these signals, unless they are taken already, and call `stop` when one comes."""
        if not self._stops:
            self._heard = False
        self._stops.append(stop)
        for number in numbers:
            if signal.getsignal(number) != self._hear:
                self._before[number] = signal.signal(number, self._hear)

    def remove(self, stop: Callable[[], object]) -> None:
        """Forget it; the last one gives the signals back, but not those that others took since."""
        self._stops.remove(stop)
        if self._stops:
            return
        for number in list(self._before):
            if signal.getsignal(number) == self._hear:
                self._give_back(number)

    def unclaimed(self) -> list[int]:
        """Those that a guest may take: none if the host handles one, and never an ignored one."""
        handlers = {number: signal.getsignal(number) for number in self.NUMBERS}
        if any(self._is_hosts(each) for each in handlers.values()):
            return []
        return [number for number, each in handlers.items() if each != signal.SIG_IGN]

    def _is_hosts(self, handler: Any) -> bool:
        usual = (signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler, self._hear)
        # asyncio.run handles SIGINT on its own account, only to cancel its main task.
        origin = handler.func if isinstance(handler, partial) else handler
        return handler not in usual and getattr(origin, "__module__", "") != "asyncio.runners"

    def _give_back(self, number: int) -> None:
        handler = self._before.pop(number, None)
        signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _hear(self, number: int, _frame: object) -> None:
        if not self._stops:
            # A host that took the signal from us restored our handler after we had ended.
            self._give_back(number)
            signal.raise_signal(number)
            return
        if self._heard:
            os._exit(128 + number)
        self._heard = True
        for stop in list(self._stops):
            stop()


_stop_signals = StopSignals()


@contextmanager
def listen_for_signals(
    stop: Callable[[], None] | None, *, as_guest: bool = False
) -> Iterator[None]:
    """Call `stop` on the first SIGTERM or SIGINT; the second ends the process at once.

    It needs no event loop; where one runs, `stop` is called there. What listened before does so
    again afterwards. A guest leaves the signals alone when the host process handles them itself.
    """
    if stop is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    call = _on_running_loop(stop)
    _stop_signals.add(call, _stop_signals.unclaimed() if as_guest else StopSignals.NUMBERS)
    try:
        yield
    finally:
        _stop_signals.remove(call)


def _on_running_loop(call: Callable[[], None]) -> Callable[[], object]:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return call
    # A loop that waits is not woken by what happens in a signal's handler.
    return partial(loop.call_soon_threadsafe, call)
