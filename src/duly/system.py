"""The real clock, chance, sleep and threads: the one place where they enter."""

from __future__ import annotations

import asyncio
import os
import queue
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from duly.domain.identity import delivery_id


class SystemClock:
    """The machine's time."""

    virtual = False

    def now(self) -> datetime:
        """The present moment in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


def _milliseconds() -> int:
    return int(time.time() * 1000)


class SystemChance:
    """The machine's randomness, and ids made from it."""

    def __init__(self, milliseconds: Callable[[], int] = _milliseconds) -> None:
        self._milliseconds = milliseconds
        self._random = random.Random(os.urandom(32))
        self._last = (0, 0)
        os.register_at_fork(after_in_child=self._begin_anew)

    def _begin_anew(self) -> None:
        # Two processes that shared one state would give the same ids.
        self._random.seed(os.urandom(32))
        self._last = (0, 0)

    def fraction(self) -> float:
        """A number from 0 to 1."""
        return self._random.random()

    def bytes(self, many: int) -> bytes:
        """Bytes that nobody can guess."""
        return os.urandom(many)

    def delivery_id(self) -> str:
        """A new delivery id, never sorted before the ones that this process made earlier."""
        milliseconds = self._milliseconds()
        before, chance = self._last
        if milliseconds > before:
            # Half of the range: the rest is for those of the same millisecond.
            self._last = (milliseconds, self._random.getrandbits(73))
        else:
            self._last = (before, chance + 1 + self._random.getrandbits(32))
        return delivery_id(*self._last)


class Threads:
    """Runs plain functions in threads that never keep the process from ending."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]]
        self._waiting = queue.SimpleQueue()
        self._started = 0
        self._idle = threading.Semaphore(0)

    def run(self, function: Callable[[], Any]) -> Future[Any]:
        """Run the function when a thread is free."""
        future: Future[Any] = Future()
        self._waiting.put((function, future))
        # Taking an idle thread's place in the count: two calls must not both rely on one thread.
        if not self._idle.acquire(blocking=False) and self._started < self._most:
            self._started += 1
            threading.Thread(target=self._work, name="duly-handler", daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            try:
                function, future = self._waiting.get_nowait()
            except queue.Empty:
                self._idle.release()
                function, future = self._waiting.get()
            if future.set_running_or_notify_cancel():
                _call(function, future)


def _call(function: Callable[[], Any], future: Future[Any]) -> None:
    try:
        future.set_result(function())
    except StopIteration as error:
        # asyncio cannot carry it, and whoever waits would wait for ever.
        future.set_exception(RuntimeError(f"the function raised {error!r}"))
    except BaseException as error:
        future.set_exception(error)


SWITCH_SECONDS = 0.0001


def hand_over_quickly() -> None:
    """Let threads wait less long for Python's lock.

    SQLite's writer and the event loop take turns; by default whoever waits does so for 5 ms, which
    is longer than either has to do (draining SQLite: 43 thousand a second with half a
    millisecond, 55 with this; beside webhooks a tenth more).
    """
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))


def process_name() -> str:
    """Where this process runs, for people."""
    return f"{machine_name()}:{os.getpid()}"


def machine_name() -> str:
    """What this machine calls itself."""
    return socket.gethostname()


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that has its address but does not listen yet; OSError when it cannot have it."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound


@contextmanager
def listen_for_signals(stop: Callable[[], None] | None) -> Iterator[None]:
    """Call `stop` on the first SIGTERM or SIGINT; the second ends the process at once."""
    if stop is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    heard = False

    def hear(number: int) -> None:
        nonlocal heard
        if heard:
            os._exit(128 + number)
        heard = True
        stop()

    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, hear, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def open_socket(family: int, kind: int, protocol: int) -> socket.socket:
    """A socket for a connection to the outside."""
    return socket.socket(family, kind, protocol)


def is_resolver_trouble(error: OSError) -> bool:
    """Whether a lookup failed for now, as opposed to an answer that there is no such name."""
    # Trouble of the system itself (EAI_SYSTEM) comes as the error that it is.
    passing = (socket.EAI_AGAIN, socket.EAI_SYSTEM, socket.EAI_MEMORY)
    return not isinstance(error, socket.gaierror) or error.errno in passing
