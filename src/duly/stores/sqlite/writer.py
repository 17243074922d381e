"""The one thread that writes to an SQLite file, with group commit.

All work that is queued during a commit is written in the next transaction, so a commit costs the
same for one caller and for a hundred. Each piece of work has its own savepoint: if it fails, only
its own writes are undone. Results are returned only after the commit.

Python's global lock is released for every statement, and another thread may keep it for a while. So
a single piece of work that is one statement runs without `begin` and `commit`.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

import apsw

from duly.errors import Conflict

Work = Callable[[apsw.Connection], Any]
MOST_IN_ONE_COMMIT = 512


class Job(NamedTuple):
    """A piece of work and the future of its result."""

    work: Work
    future: Future[Any]
    alone: bool = False
    """Whether it needs no transaction, because it writes with at most one statement."""


Answer = tuple["Future[Any]", Any, BaseException | None]


class TransactionEnded(Conflict):
    """SQLite rolled back the transaction by itself, for example because the disk is full."""


class Hold:
    """The writer, held by one caller for a transaction."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.begun: Future[None] = Future()
        self.over = False

    def submit(self, work: Work) -> Future[Any]:
        """Queue work inside the transaction."""
        job = Job(work, Future())
        self.jobs.put(job)
        return job.future

    def let_go(self) -> None:
        """Release the writer; what was not committed is rolled back."""
        self.over = True
        self.jobs.put(None)


class Writer:
    """Runs work in order, in shared transactions, on one thread."""

    def __init__(
        self, connection: apsw.Connection, check: Callable[[apsw.Connection], None]
    ) -> None:
        self._check = check
        self._jobs: queue.SimpleQueue[Job | Hold | None] = queue.SimpleQueue()
        self._connection = connection
        self.commits = 0
        self._current_hold: Hold | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="duly-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Work, *, alone: bool = False) -> Future[Any]:
        """Queue work; the future is done when its transaction is on disk."""
        job = Job(work, Future(), alone)
        self._jobs.put(job)
        return job.future

    def hold(self) -> Hold:
        """Queue to hold the writer; `begun` is done when the transaction is open."""
        hold = Hold()
        self._jobs.put(hold)
        return hold

    def close(self) -> None:
        """Finish queued work and close the connection; an open transaction is rolled back."""
        if self._thread.is_alive():
            self._closing = True
            if (held := self._current_hold) is not None:
                held.let_go()
            self._jobs.put(None)
            self._thread.join()

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch, hold, is_open = self._gather()
            if batch:
                self._commit(batch)
            if hold is not None:
                self._lend(hold)
        self._connection.close()

    def _gather(self) -> tuple[list[Job], Hold | None, bool]:
        batch: list[Job] = []
        job = self._jobs.get()
        while True:
            if job is None:
                return batch, None, False
            if isinstance(job, Hold):
                return batch, job, True
            batch.append(job)
            if len(batch) >= MOST_IN_ONE_COMMIT:
                return batch, None, True
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return batch, None, True

    def _commit(self, batch: list[Job]) -> None:
        answers: list[Answer]
        try:
            self._check(self._connection)
            if len(batch) == 1:
                answers = [(batch[0].future, self._run_single(batch[0]), None)]
            else:
                answers = self._run_batch(batch)
            # A write to a file that was deleted meanwhile must not be acknowledged.
            self._check(self._connection)
            self.commits += 1
        except Exception as error:
            self._roll_back()
            answers = [(job.future, None, error) for job in batch]
        for future, result, problem in answers:
            _resolve(future, result, problem)

    def _run_single(self, job: Job) -> Any:
        if job.alone:
            return job.work(self._connection)
        # A single job needs no savepoint: if it fails, the whole transaction is rolled back.
        self._connection.execute("begin immediate")
        result = job.work(self._connection)
        self._connection.execute("commit")
        return result

    def _run_batch(self, batch: list[Job]) -> list[Answer]:
        self._connection.execute("begin immediate")
        answers = [(job.future, *self._run_in_savepoint(job.work)) for job in batch]
        self._connection.execute("commit")
        return answers

    def _run_in_savepoint(self, work: Work) -> tuple[Any, BaseException | None]:
        try:
            with self._connection:
                result = work(self._connection)
        except Exception as problem:
            if not self._connection.in_transaction:
                raise  # SQLite rolled back the whole transaction, with the work of others
            return None, problem
        return result, None

    def _lend(self, hold: Hold) -> None:
        # Set before `_closing` is read, so that either this method or `close` releases the hold.
        self._current_hold = hold
        if self._closing:
            hold.let_go()
        self._serve(hold)
        self._current_hold = None

    def _serve(self, hold: Hold) -> None:
        if not hold.begun.set_running_or_notify_cancel():
            return  # it was cancelled while it waited
        try:
            self._check(self._connection)
            self._connection.execute("begin immediate")
        except Exception as error:
            hold.begun.set_exception(error)
            return
        hold.begun.set_result(None)
        while (job := hold.jobs.get()) is not None:
            try:
                if not self._connection.in_transaction:
                    raise TransactionEnded("SQLite ended the transaction; nothing of it was kept")
                result = job.work(self._connection)
                if not self._connection.in_transaction:
                    self._check(self._connection)
                _resolve(job.future, result, None)
            except Exception as problem:
                _resolve(job.future, None, problem)
        self._roll_back()

    def _roll_back(self) -> None:
        # If this fails, SQLite has rolled back already.
        with contextlib.suppress(apsw.Error):
            if self._connection.in_transaction:
                self._connection.execute("rollback")


def _resolve(future: Future[Any], result: Any, problem: BaseException | None) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if problem is None:
        future.set_result(result)
    else:
        future.set_exception(problem)
