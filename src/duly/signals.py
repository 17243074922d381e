"""SIGTERM and SIGINT as a request to stop."""

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
    """Calls registered functions on the first SIGTERM or SIGINT; the second ends the process."""

    NUMBERS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self._stops: list[Callable[[], object]] = []
        self._previous: dict[int, Any] = {}
        self._received = False

    def add(self, stop: Callable[[], object], numbers: Iterable[int]) -> None:
        """Call `stop` when one of these signals arrives; installs handlers where needed."""
        if not self._stops:
            self._received = False
        self._stops.append(stop)
        for number in numbers:
            if signal.getsignal(number) != self._handle:
                self._previous[number] = signal.signal(number, self._handle)

    def remove(self, stop: Callable[[], object]) -> None:
        """Remove `stop`; the last one restores the handlers, except where others replaced ours."""
        self._stops.remove(stop)
        if self._stops:
            return
        for number in list(self._previous):
            if signal.getsignal(number) == self._handle:
                self._restore(number)

    def unclaimed(self) -> list[int]:
        """The signals a guest may handle: none if the host handles one, and no ignored one."""
        handlers = {number: signal.getsignal(number) for number in self.NUMBERS}
        if any(self._belongs_to_host(each) for each in handlers.values()):
            return []
        return [number for number, each in handlers.items() if each != signal.SIG_IGN]

    def _belongs_to_host(self, handler: Any) -> bool:
        usual = (signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler, self._handle)
        # asyncio.run installs a SIGINT handler too, which only cancels its main task.
        origin = handler.func if isinstance(handler, partial) else handler
        return handler not in usual and getattr(origin, "__module__", "") != "asyncio.runners"

    def _restore(self, number: int) -> None:
        handler = self._previous.pop(number, None)
        signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, _frame: object) -> None:
        if not self._stops:
            # A host that had replaced our handler restored it after we had ended.
            self._restore(number)
            signal.raise_signal(number)
            return
        if self._received:
            os._exit(128 + number)
        self._received = True
        for stop in list(self._stops):
            stop()


_stop_signals = StopSignals()


@contextmanager
def listen_for_signals(
    stop: Callable[[], None] | None, *, as_guest: bool = False
) -> Iterator[None]:
    """Call `stop` on the first SIGTERM or SIGINT; the second ends the process at once.

    It needs no event loop; if one runs, `stop` is called in it. The previous handlers are restored
    afterwards. With `as_guest`, none is handled if the host process handles one of them.
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
    # A signal handler alone does not wake a waiting event loop.
    return partial(loop.call_soon_threadsafe, call)
