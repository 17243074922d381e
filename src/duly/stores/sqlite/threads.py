"""A pool of daemon threads for blocking calls of SQLite."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Job(NamedTuple):
    """A call and the future of its result."""

    call: Callable[[], Any]
    future: Future[Any]


class DaemonThreads(Executor):
    """At most this many threads, started when they are needed.

    ThreadPoolExecutor refuses calls as soon as the main thread has ended; other threads may still
    use the store then.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []

    def submit(
        self, function: Callable[Given, Result], /, *given: Given.args, **named: Given.kwargs
    ) -> Future[Result]:
        """Queue a call."""
        future: Future[Result] = Future()
        self._jobs.put(Job(lambda: function(*given, **named), future))
        # Acquiring reserves an idle thread, so that two calls never rely on the same one.
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._most:
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """Finish the queued calls and end the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                self._idle.release()
                job = self._jobs.get()
            if job is None:
                return
            if job.future.set_running_or_notify_cancel():
                _run(job)
            del job  # the next one may come late, and results are large


def _run(job: Job) -> None:
    try:
        job.future.set_result(job.call())
    except BaseException as error:
        job.future.set_exception(error)
