"""The real clock, randomness, threads, signals, processes and sockets of the operating system."""

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
from functools import partial
from typing import Any, NoReturn

from duly.domain.deliveries.identifiers import delivery_id

# On Linux, CLOCK_MONOTONIC stops while the machine is suspended.
SLEEPLESS = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The system's clock."""

    virtual = False

    def now(self) -> datetime:
        """The present moment in UTC."""
        return datetime.now(UTC)

    # Without a function around it, since it is called three times for every delivery.
    monotonic = staticmethod(partial(time.clock_gettime, SLEEPLESS))
    """Seconds of a clock that never goes back, and includes the time of a suspend."""

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""
        await asyncio.sleep(seconds)


def _milliseconds() -> int:
    return int(time.time() * 1000)


class SystemChance:
    """The system's randomness, and ids made from it."""

    def __init__(self, milliseconds: Callable[[], int] = _milliseconds) -> None:
        self._milliseconds = milliseconds
        self._random = random.Random(os.urandom(32))
        self._last = (0, 0)
        os.register_at_fork(after_in_child=self._reseed)

    def _reseed(self) -> None:
        # A forked process with the same state would make the same ids.
        self._random.seed(os.urandom(32))
        self._last = (0, 0)

    def fraction(self) -> float:
        """A random number from 0 to 1."""
        return self._random.random()

    def bytes(self, many: int) -> bytes:
        """Cryptographically random bytes."""
        return os.urandom(many)

    def delivery_id(self) -> str:
        """A new delivery id, which sorts after all earlier ones of this process."""
        milliseconds = self._milliseconds()
        before, chance = self._last
        if milliseconds > before:
            # Half of the range; the rest is for further ids of the same millisecond.
            self._last = (milliseconds, self._random.getrandbits(73))
        else:
            self._last = (before, chance + 1 + self._random.getrandbits(32))
        return delivery_id(*self._last)


class Threads:
    """Runs plain functions in daemon threads, which do not keep the process from ending.

    A thread is started whenever none is idle, so a hanging function blocks no other. The caller
    limits the number of concurrent functions.
    """

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]]
        self._waiting = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)

    def run(self, function: Callable[[], Any]) -> Future[Any]:
        """Start the function immediately, in a thread that runs nothing else."""
        future: Future[Any] = Future()
        self._waiting.put((function, future))
        # Acquiring reserves an idle thread, so that two calls never rely on the same one.
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
        # asyncio futures refuse StopIteration, and the caller would wait for ever.
        future.set_exception(RuntimeError(f"the function raised {error!r}"))
    except BaseException as error:
        future.set_exception(error)


def run_in_thread(function: Callable[[], Any]) -> Future[Any]:
    """Start the function in a daemon thread of its own, which ends with it."""
    future: Future[Any] = Future()

    def run() -> None:
        if future.set_running_or_notify_cancel():
            _call(function, future)

    threading.Thread(target=run, name="duly-call", daemon=True).start()
    return future


def join_fully(thread: threading.Thread, seconds: float) -> None:
    """Wait until a thread has ended, for the system too (on Linux).

    Python's `join` returns a moment earlier. A fork in that moment would copy a locked lock of
    OpenSSL, which cleans up when a thread ends, and the child would hang in it.
    """
    thread.join(seconds)
    place, until = f"/proc/self/task/{thread.native_id}", time.monotonic() + seconds
    while os.path.exists(place) and time.monotonic() < until:
        time.sleep(0.0005)


SWITCH_SECONDS = 0.0001


def hand_over_quickly() -> None:
    """Shorten the time that threads wait for Python's global interpreter lock.

    SQLite's writer thread and the event loop alternate. By default a waiting thread gets the lock
    after 5 ms, longer than either runs at a time. Measured draining SQLite: 43,000 a second with
    0.5 ms, 55,000 with this; with webhooks a tenth more.
    """
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))


def collect_rarely() -> None:
    """Run Python's garbage collector less often, and only on new objects.

    Only for processes that duly starts. Attempts leave no reference cycles, but each batch makes
    enough objects to trigger a collection: that took a twelfth of the time when sending webhooks.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def process_name() -> str:
    """The name of this process: host name and process id."""
    return f"{machine_name()}:{os.getpid()}"


def machine_name() -> str:
    """The host name of this machine."""
    return socket.gethostname()


def bound_socket(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet; OSError if the address cannot be bound."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        # All copies share this mode, in other processes too. In blocking mode, which `dup` sets,
        # a process that loses the race for a connection would hang in accept.
        bound.setblocking(False)
    except BaseException:
        bound.close()
        raise
    return bound


def end_within(seconds: float, code: int) -> None:
    """End the process after some seconds, even if something still runs in it.

    Only for processes that duly starts. Without this, Python would wait for ever at its end for
    threads of executors and for tasks that ignore cancellation.
    """

    def end() -> None:
        time.sleep(seconds)
        end_now(code)

    threading.Thread(target=end, name="duly-end", daemon=True).start()


def end_now(code: int) -> NoReturn:
    """End the process immediately, after flushing stdout and stderr."""
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


@contextmanager
def stop_when_orphaned(
    lifeline: int | None, stop: Callable[[], None], patience: float
) -> Iterator[None]:
    """Call `stop` when the other end of the pipe `lifeline` is closed, as when the parent died.

    A thread waits for it, and ends the process after `patience` seconds even if the loop hangs.
    """
    if lifeline is not None:
        loop = asyncio.get_running_loop()

        def watch() -> None:
            os.read(lifeline, 1)
            with suppress(RuntimeError):  # the loop is already closed
                loop.call_soon_threadsafe(stop)
            time.sleep(patience)
            os._exit(1)

        threading.Thread(target=watch, name="duly-lifeline", daemon=True).start()
    yield


class Signals:
    """Waits for SIGTERM, SIGINT and SIGCHLD, in a process without an event loop.

    Handlers are installed because the first process of a container gets no signal without one.
    """

    NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)

    def __init__(self) -> None:
        self._read_end, self._write_end = pipe_without_waiting()
        self._previous = {each: signal.signal(each, _do_nothing) for each in self.NUMBERS}
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)

    def wait(self, beside: int, seconds: float | None) -> list[int]:
        """Wait for a signal, for data on `beside`, or for the timeout; returns the signals."""
        select.select([self._read_end, beside], [], [], seconds)
        return list(read_at_once(self._read_end))

    def forget(self) -> None:
        """Restore the previous handlers, as a child process has to."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self._read_end)
        os.close(self._write_end)


def _do_nothing(_number: int, _frame: object) -> None:
    """Do nothing: the wake-up pipe reports the signal."""


def pipe_without_waiting() -> tuple[int, int]:
    """A non-blocking pipe: its read end and its write end."""
    ends = os.pipe()
    for each in ends:
        os.set_blocking(each, False)
    return ends


def read_at_once(end: int) -> bytes:
    """The bytes that can be read without blocking."""
    try:
        return os.read(end, 65536)
    except BlockingIOError:
        return b""


def shared_memory(many: int) -> mmap.mmap:
    """Zeroed memory that this process shares with the processes it forks."""
    return mmap.mmap(-1, many)


def fork(run: Callable[[], int]) -> int:
    """Fork a child that runs the function and exits with its result; returns the child's pid."""
    number = os.fork()
    if not number:
        _run_child(run)
    return number


def _run_child(run: Callable[[], int]) -> NoReturn:
    code = 1
    try:
        # Only the parent gets Ctrl-C and passes it on: a second signal would end the child at once.
        os.setpgid(0, 0)
        code = run()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended_children() -> Iterator[tuple[int, int]]:
    """The pids and exit codes of ended children; 128 plus the number for a signal.

    As the first process of a container, this one also gets orphans of other processes.
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
    """Whether this is the first process of a container, which has to reap orphans."""
    return os.getpid() == 1


def send_datagram(address: str, message: bytes) -> None:
    """Send to a unix socket, given as a path or as @ and an abstract name; OSError on failure.

    It never waits for the receiver.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
        sending.setblocking(False)
        abstract = address.startswith("@")
        sending.sendto(message, f"\0{address[1:]}" if abstract else address)


def open_socket(family: int, kind: int, protocol: int) -> socket.socket:
    """A socket for an outgoing connection."""
    return socket.socket(family, kind, protocol)


def addresses_of(host: str) -> list[str]:
    """The IP addresses of a host, the preferred first; OSError if there are none. It blocks."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


async def look_up(host: str, port: int) -> list[Any]:
    """The addresses of a host as `socket.getaddrinfo` returns them, without blocking the loop."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:  # a name, not an address
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        return list(found)


def is_own_address(address: str) -> bool:
    """Whether an IP address belongs to this machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # Connecting a datagram socket sends nothing; the system only picks the source address, which
    # for one of its own addresses is that address itself.
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError:
            return False
        return bool(probe.getsockname()[0] == address)


def is_resolver_trouble(error: OSError) -> bool:
    """Whether a lookup failed temporarily, unlike an answer that the name does not exist."""
    # Python raises EAI_SYSTEM as the OSError behind it, not as gaierror.
    temporary = (socket.EAI_AGAIN, socket.EAI_SYSTEM, socket.EAI_MEMORY)
    return not isinstance(error, socket.gaierror) or error.errno in temporary
