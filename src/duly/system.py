"""The real clock, chance, sleep and threads: the one place where they enter."""

from __future__ import annotations

import asyncio
import gc
import mmap
import os
import queue
import random
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, NoReturn

from duly.domain.deliveries.identifiers import delivery_id

# Linux stops CLOCK_MONOTONIC while the machine is suspended; elsewhere it goes on.
SLEEPLESS = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The machine's time."""

    virtual = False

    def now(self) -> datetime:
        """The present moment in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go back, and pass while the machine sleeps too."""
        return time.clock_gettime(SLEEPLESS)

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
    """Runs plain functions in threads that never keep the process from ending.

    There are as many as are needed at once, so that one that hangs holds up nobody else. How many
    that is, whoever calls decides.
    """

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]]
        self._waiting = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)

    def run(self, function: Callable[[], Any]) -> Future[Any]:
        """Run the function in a thread of its own, at once."""
        future: Future[Any] = Future()
        self._waiting.put((function, future))
        # Taking an idle thread's place in the count: two calls must not both rely on one thread.
        if not self._idle.acquire(blocking=False):
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


def collect_rarely() -> None:
    """Have Python look for garbage among what is new, and less often; for a process of our own.

    Attempts leave no circles behind, but every batch of them is enough new objects to have it
    look: it took a twelfth of the time of a process that sends webhooks.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


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
        # All copies, in other processes too, wait or do not wait together. One that was made to
        # wait, as `dup` does, would halt whoever lost the race for a caller.
        bound.setblocking(False)
    except BaseException:
        bound.close()
        raise
    return bound


def end_within(seconds: float, code: int) -> None:
    """End the process after so long, whatever still runs in it; for a process of our own.

    Python waits at its end for the threads of executors, and its loops for tasks that will not be
    cancelled, for ever.
    """

    def end() -> None:
        time.sleep(seconds)
        end_now(code)

    threading.Thread(target=end, name="duly-end", daemon=True).start()


def end_now(code: int) -> NoReturn:
    """End the process with nothing but what was said so far written out."""
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


@contextmanager
def stop_when_orphaned(
    lifeline: int | None, stop: Callable[[], None], patience: float
) -> Iterator[None]:
    """Call `stop` when nobody holds the other end of the pipe any more.

    A thread waits for that, so that a loop that hangs ends too, after `patience` seconds.
    """
    if lifeline is not None:
        loop = asyncio.get_running_loop()

        def watch() -> None:
            os.read(lifeline, 1)
            with suppress(RuntimeError):  # it is over already
                loop.call_soon_threadsafe(stop)
            time.sleep(patience)
            os._exit(1)

        threading.Thread(target=watch, name="duly-lifeline", daemon=True).start()
    yield


class Signals:
    """SIGTERM, SIGINT and the ends of children, for a process that waits for nothing else.

    They are handled explicitly: what the first process of a container does not handle, it does
    not get.
    """

    NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)

    def __init__(self) -> None:
        self._heard, self._telling = pipe_without_waiting()
        self._before = {each: signal.signal(each, _do_nothing) for each in self.NUMBERS}
        signal.set_wakeup_fd(self._telling, warn_on_full_buffer=False)

    def wait(self, beside: int, seconds: float | None) -> list[int]:
        """Wait until one comes, or something can be read `beside`; those that came."""
        select.select([self._heard, beside], [], [], seconds)
        return list(read_at_once(self._heard))

    def forget(self) -> None:
        """Be as before, as in a child."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._heard)
        os.close(self._telling)


def _do_nothing(_number: int, _frame: object) -> None:
    """The pipe tells it."""


def pipe_without_waiting() -> tuple[int, int]:
    """A pipe of which neither end ever makes one wait: what to read from, and to write to."""
    ends = os.pipe()
    for each in ends:
        os.set_blocking(each, False)
    return ends


def read_at_once(end: int) -> bytes:
    """What can be read without waiting."""
    try:
        return os.read(end, 65536)
    except BlockingIOError:
        return b""


def shared_memory(many: int) -> mmap.mmap:
    """So many bytes, all zero, that this process and those it starts have together."""
    return mmap.mmap(-1, many)


def fork(run: Callable[[], int]) -> int:
    """Start a child that runs the function and ends with its code; returns the child's number."""
    number = os.fork()
    if not number:
        _be_child(run)
    return number


def _be_child(run: Callable[[], int]) -> NoReturn:
    code = 1
    try:
        # Ctrl-C is for the parent, which passes it on: twice would mean at once.
        os.setpgid(0, 0)
        code = run()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended_children() -> Iterator[tuple[int, int]]:
    """Children that ended, with their codes, 128 and the number for a signal; orphans too.

    As the first process of a container this one gets the orphans of all others.
    """
    while True:
        try:
            number, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not number:
            return
        code = os.waitstatus_to_exitcode(status)
        yield number, code if code >= 0 else 128 - code


def is_first_process() -> bool:
    """Whether this is a container's first process, whose signals and orphans are its own."""
    return os.getpid() == 1


def send_datagram(address: str, message: bytes) -> None:
    """Send to a unix socket, at a path or, after an @, of an abstract name; OSError if it cannot.

    It never waits for whoever should read it.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
        sending.setblocking(False)
        abstract = address.startswith("@")
        sending.sendto(message, f"\0{address[1:]}" if abstract else address)


def open_socket(family: int, kind: int, protocol: int) -> socket.socket:
    """A socket for a connection to the outside."""
    return socket.socket(family, kind, protocol)


def is_own_address(address: str) -> bool:
    """Whether an address is one of this machine's."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # Connecting a datagram socket sends nothing; the system picks the address to send from, and
    # to itself it sends from the very address.
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError:
            return False
        return bool(probe.getsockname()[0] == address)


def is_resolver_trouble(error: OSError) -> bool:
    """Whether a lookup failed for now, as opposed to an answer that there is no such name."""
    # Trouble of the system itself (EAI_SYSTEM) comes as the error that it is.
    passing = (socket.EAI_AGAIN, socket.EAI_SYSTEM, socket.EAI_MEMORY)
    return not isinstance(error, socket.gaierror) or error.errno in passing
