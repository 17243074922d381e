"""The real clock, chance, sleep and threads: the one place where they enter."""

from __future__ import annotations

import asyncio
import os
import queue
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from duly.domain.identity import delivery_id
from duly.ports import Clock


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


class SystemChance:
    """The machine's randomness, and ids made from it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._random = random.Random(os.urandom(32))
        self._last = 0
        # Two processes that shared one state would give the same ids.
        os.register_at_fork(after_in_child=lambda: self._random.seed(os.urandom(32)))

    def fraction(self) -> float:
        """A number from 0 to 1."""
        return self._random.random()

    def delivery_id(self) -> str:
        """A new delivery id, never sorted before the ones that this process made earlier."""
        self._last = max(self._last, int(self._clock.now().timestamp() * 1000))
        return delivery_id(self._last, self._random.getrandbits(74))


class Threads:
    """Runs plain functions in threads that never keep the process from ending."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]]
        self._waiting = queue.SimpleQueue()
        self._started = 0
        self._idle = 0

    def run(self, function: Callable[[], Any]) -> Future[Any]:
        """Run the function when a thread is free."""
        future: Future[Any] = Future()
        self._waiting.put((function, future))
        if self._idle == 0 and self._started < self._most:
            self._started += 1
            threading.Thread(target=self._work, name="duly-handler", daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            self._idle += 1
            function, future = self._waiting.get()
            self._idle -= 1
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)


def process_name() -> str:
    """Where this process runs, for people."""
    return f"{socket.gethostname()}:{os.getpid()}"


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
    heard = False

    def hear(number: int) -> None:
        nonlocal heard
        if heard:
            os._exit(128 + number)
        heard = True
        stop()

    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, hear, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
