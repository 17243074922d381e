"""The one thread that writes to an SQLite file, and lets whoever waits share its commits.

Everything that is queued while a commit is under way goes into the next transaction, so a commit
costs the same for one writer and for a hundred. Each piece of work stands in a savepoint of its
own: one that fails undoes itself and nobody else. Answers are given only after the commit.

Python's lock is handed over for every statement, and whoever runs meanwhile gives it back late. So
what comes by itself and writes with one statement only is left to commit itself.
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
    """Something to do, and who waits for it."""

    work: Work
    future: Future[Any]
    alone: bool = False
    """Whether it needs no transaction around it: it writes with one statement, or not at all."""


Answer = tuple["Future[Any]", Any, BaseException | None]


class TransactionEnded(Conflict):
    """SQLite undid the transaction by itself, as when the disk is full."""


class Hold:
    """The writer lent to one caller for a transaction of its own."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.begun: Future[None] = Future()
        self.over = False

    def submit(self, work: Work) -> Future[Any]:
        """Run something inside the transaction."""
        job = Job(work, Future())
        self.jobs.put(job)
        return job.future

    def let_go(self) -> None:
        """Give the writer back; what was not committed is undone."""
        self.over = True
        self.jobs.put(None)


class Writer:
    """Runs work in order, in shared transactions, on its own thread."""

    def __init__(
        self, connection: apsw.Connection, check: Callable[[apsw.Connection], None]
    ) -> None:
        self._check = check
        self._jobs: queue.SimpleQueue[Job | Hold | None] = queue.SimpleQueue()
        self._connection = connection
        self.commits = 0
        self._serving: Hold | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="duly-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Work, *, alone: bool = False) -> Future[Any]:
        """Queue work; the future is done when its transaction is on disk."""
        job = Job(work, Future(), alone)
        self._jobs.put(job)
        return job.future

    def hold(self) -> Hold:
        """Queue for the writer as a whole; `begun` is done when the transaction is open."""
        hold = Hold()
        self._jobs.put(hold)
        return hold

    def close(self) -> None:
        """Finish what is queued and close the connection; a transaction still open is undone."""
        if self._thread.is_alive():
            self._closing = True
            if (held := self._serving) is not None:
                held.let_go()
            self._jobs.put(None)
            self._thread.join()

    def _run(self) -> None:
        going = True
        while going:
            batch, hold, going = self._gather()
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
                answers = [(batch[0].future, self._done(batch[0]), None)]
            else:
                answers = self._together(batch)
            # Nobody hears "yes" of what went into a file that was deleted meanwhile.
            self._check(self._connection)
            self.commits += 1
        except Exception as error:
            self._roll_back()
            answers = [(job.future, None, error) for job in batch]
        for future, result, problem in answers:
            _answer(future, result, problem)

    def _done(self, job: Job) -> Any:
        if job.alone:
            return job.work(self._connection)
        # By itself it needs no savepoint: if it fails, nothing else goes with it.
        self._connection.execute("begin immediate")
        result = job.work(self._connection)
        self._connection.execute("commit")
        return result

    def _together(self, batch: list[Job]) -> list[Answer]:
        self._connection.execute("begin immediate")
        answers = [(job.future, *self._try(job.work)) for job in batch]
        self._connection.execute("commit")
        return answers

    def _try(self, work: Work) -> tuple[Any, BaseException | None]:
        try:
            with self._connection:
                result = work(self._connection)
        except Exception as problem:
            if not self._connection.in_transaction:
                raise  # the whole transaction is gone, and with it what the others wrote
            return None, problem
        return result, None

    def _lend(self, hold: Hold) -> None:
        # Named before looking whether we close, so that either this or `close` sees the other.
        self._serving = hold
        if self._closing:
            hold.let_go()
        self._serve(hold)
        self._serving = None

    def _serve(self, hold: Hold) -> None:
        if not hold.begun.set_running_or_notify_cancel():
            return  # it was given up while it waited
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
                _answer(job.future, result, None)
            except Exception as problem:
                _answer(job.future, None, problem)
        self._roll_back()

    def _roll_back(self) -> None:
        # A rollback that fails leaves nothing to undo: SQLite has done it already.
        with contextlib.suppress(apsw.Error):
            if self._connection.in_transaction:
                self._connection.execute("rollback")


def _answer(future: Future[Any], result: Any, problem: BaseException | None) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if problem is None:
        future.set_result(result)
    else:
        future.set_exception(problem)
