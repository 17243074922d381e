"""SQLite as a database: one writer thread, read-only connections, and one owner of each file."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw

from duly.errors import BadSetting, Conflict, StoreIsOwned, StoreUnavailable
from duly.ports import RUNNING
from duly.stores.database import Channel, Session
from duly.stores.event_loop import HomeLoop
from duly.stores.sqlite.checkpoints import Checkpoints
from duly.stores.sqlite.file import SqliteFile, Stranded
from duly.stores.sqlite.session import SqliteSession
from duly.stores.sqlite.threads import DaemonThreads
from duly.stores.sqlite.writer import Hold, Work, Writer

BUSY_MILLISECONDS = 10_000
FAULTS = (
    apsw.ConstraintError,
    apsw.SQLError,
    apsw.BindingsError,
    apsw.MismatchError,
    apsw.RangeError,
    apsw.TooBigError,
    apsw.MisuseError,
    apsw.ExecutionCompleteError,
)
"""Errors of a statement or its parameters: trying again would not help."""
READERS = 2


class Sqlite(SqliteSession):
    """This process's connections to one file."""

    refusals: tuple[type[Exception], ...] = (apsw.ConstraintError, apsw.MismatchError)

    def __init__(self, path: Path, moment: Callable[[], datetime]) -> None:
        super().__init__(moment)
        self.path = self.source = path
        self.home = HomeLoop()
        self._thread_local = threading.local()
        self._file = SqliteFile(path)
        self.stays_owned = False
        """Whether this process stays the owner of the file after it is closed."""
        self._writer: Writer | None = None
        self._checkpoints: Checkpoints | None = None
        self._readers: DaemonThreads | None = None
        self._opened: list[apsw.Connection] = []
        self._is_stranded = False
        self._attempt_holds: dict[object, Hold] = {}

    async def open(self) -> None:
        """Open the file, creating it if needed."""
        if self._writer is None:
            _check_path(self.path)
            try:
                with clear_errors(self.path), self._file.being_opened() as opened:
                    connection = self._connect()
                    opened(connection)
                self._checkpoints = Checkpoints(self._connect, self._file)
                self._checkpoints.watch(connection)
                self._writer = Writer(connection, self._check)
            except StoreUnavailable as error:
                if isinstance(error.__cause__, apsw.CantOpenError | apsw.ReadOnlyError):
                    raise _unwritable(self.path) from error
                raise
            self._readers = DaemonThreads(READERS, "duly-reader")

    async def close(self) -> None:
        """Finish queued work and close the file."""
        if self._file.is_forked:
            return  # the connections and threads belong to the parent
        # From here on callers get an error that it is not open, and do not wait for ended threads.
        writer, self._writer = self._writer, None
        readers, self._readers = self._readers, None
        if writer is not None and readers is not None:
            readers.shutdown()
            for connection in self._opened:
                connection.close()
            self._opened.clear()
            # In a separate thread: handlers that hang may occupy those of the event loop.
            thread = DaemonThreads(1, "duly-closing")
            await asyncio.get_running_loop().run_in_executor(thread, self._close_file, writer)
            thread.shutdown()
        if not self.stays_owned:
            self._file.disown()

    def _close_file(self, writer: Writer) -> None:
        # The writer closes last: SQLite then moves the rest of the log into the file.
        if self._checkpoints is not None:
            self._checkpoints.close()
        self._file.closing()
        writer.close()
        self._file.closed()

    def _check(self, writer: apsw.Connection) -> None:
        try:
            self._file.check()
        except Stranded:
            if not self._is_stranded:
                self._is_stranded = True
                _empty_log(writer)
            raise
        self._is_stranded = False

    def own(self) -> None:
        """Take the lock of the one server on this file; the system releases it with the process."""
        if self.stays_owned:
            raise StoreIsOwned(
                f"a handler of this process has not ended since it last worked on {self.path}; "
                "start again in a new process"
            )
        self._file.own()

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(self._file.place)
        try:
            connection.set_busy_timeout(BUSY_MILLISECONDS)
            connection.execute(
                "pragma journal_mode=wal; pragma synchronous=full; pragma foreign_keys=on;"
                "pragma journal_size_limit=67108864; pragma cache_size=-49152;"
                "select count(*) from sqlite_schema"  # the first read creates the log and its index
            ).fetchall()
            _forget_statistics(connection)
        except apsw.Error:
            connection.close()  # otherwise it stays open until it is garbage collected
            raise
        return connection

    def _reader(self) -> apsw.Connection:
        self._file.check()
        connection: apsw.Connection | None = getattr(self._thread_local, "connection", None)
        if connection is None:
            connection = self._thread_local.connection = read_only(self._file)
            self._opened.append(connection)
        return connection

    async def data_version(self) -> int:
        """A number that changes when another process writes."""
        version: int = await self.write(lambda connection: connection.pragma("data_version"))
        return version

    def check_writable(self) -> None:
        """Refuse a write that would wait forever: while the caller holds the writer, or in a fork.

        A transaction block belongs to its task; a handler's transaction belongs to all tasks of the
        handler.
        """
        self._file.check_process()
        self.home.check()
        current = _current_transaction.get()
        is_ours = current is not None and current.holds(self.path)
        if is_ours or (self._attempt_holds and _is_open(self._attempt_holds.get(RUNNING.get()))):
            raise Conflict(
                "this task is in a transaction on SQLite, and nothing else can be written until it "
                "ends; deliver in it with `connection=`, or do this before it begins"
            )

    async def write(self, work: Work, *, alone: bool = False) -> Any:
        """Run `work` on the writer's connection, in a shared transaction."""
        self.check_writable()
        if self._writer is None:
            raise StoreUnavailable(f"{self.path} is not open")
        with clear_errors(self.path):
            return await asyncio.wrap_future(self._writer.submit(work, alone=alone))

    async def read(self, work: Work) -> Any:
        """Run `work` on a read-only connection."""
        self._file.check_process()
        self.home.check()
        if self._readers is None:
            raise StoreUnavailable(f"{self.path} is not open")
        loop = asyncio.get_running_loop()
        with clear_errors(self.path):
            return await loop.run_in_executor(self._readers, lambda: work(self._reader()))

    @asynccontextmanager
    async def together(
        self,
        channel: Channel = "any",  # noqa: ARG002 - one writer serves all channels
        /,
    ) -> AsyncIterator[Session]:
        """Statements in one transaction, during which nothing else is written."""
        async with self.holding() as held:
            yield held
            await held.commit()

    @asynccontextmanager
    async def holding(self) -> AsyncIterator[HeldWriter]:
        """The writer for one caller; rolled back unless committed."""
        held = await self.hold()
        try:
            yield held
        finally:
            held.let_go()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Snapshot]:
        """Read-only statements that see the data as of the first of them.

        They run on a separate thread, so that other readers continue. Until the end, checkpoints
        can move the log only up to this snapshot.
        """
        self.home.check()
        with DaemonThreads(1, "duly-snapshot") as thread:
            snapshot = Snapshot(self._file, self._moment, thread)
            try:
                await snapshot.read(lambda connection: connection.execute("begin"))
                yield snapshot
            finally:
                thread.submit(snapshot.close)

    async def hold(self, attempt: object = None) -> HeldWriter:
        """Wait for the writer and begin a transaction, for an `attempt` if one is given."""
        self.check_writable()
        if self._writer is None:
            raise StoreUnavailable(f"{self.path} is not open")
        hold = self._writer.hold()
        if attempt is not None:
            active = {each: held for each, held in self._attempt_holds.items() if _is_open(held)}
            self._attempt_holds = active | {attempt: hold}
        try:
            with clear_errors(self.path):
                await asyncio.wrap_future(hold.begun)
        except BaseException:
            hold.let_go()
            raise
        held = HeldWriter(self.path, self._moment, hold)
        _current_transaction.set(held)
        return held


class HeldWriter(SqliteSession):
    """A session in a transaction that holds the writer."""

    def __init__(self, path: Path, moment: Callable[[], datetime], hold: Hold) -> None:
        super().__init__(moment)
        self._path = path
        self._hold = hold

    def holds(self, path: Path) -> bool:
        """Whether it still holds the writer of that file."""
        return not self._hold.over and self._path == path

    async def write(self, work: Work, *, alone: bool = False) -> Any:  # noqa: ARG002 - it is one
        """Run `work` inside the transaction."""
        if self._hold.over:
            raise Conflict("the transaction is over; it ends with its handler or its block")
        with clear_errors(self._path):
            return await asyncio.wrap_future(self._hold.submit(work))

    async def read(self, work: Work) -> Any:
        """Run `work` inside the transaction."""
        return await self.write(work)

    async def commit(self) -> None:
        """Commit."""
        await self.write(lambda connection: connection.execute("commit"))

    def let_go(self) -> None:
        """Release the writer; what was not committed is rolled back."""
        self._hold.let_go()


class Snapshot(SqliteSession):
    """A read-only session in one transaction."""

    def __init__(
        self, file: SqliteFile, moment: Callable[[], datetime], thread: DaemonThreads
    ) -> None:
        super().__init__(moment)
        self._file = file
        self._thread = thread
        self._connection: apsw.Connection | None = None

    async def write(self, work: Work, *, alone: bool = False) -> Any:  # noqa: ARG002 - it is one
        """As `read`: the connection refuses to write."""
        return await self.read(work)

    async def read(self, work: Work) -> Any:
        """Run `work` inside the transaction."""
        loop = asyncio.get_running_loop()
        with clear_errors(self._file.path):
            return await loop.run_in_executor(self._thread, lambda: work(self._opened()))

    def _opened(self) -> apsw.Connection:
        self._file.check()
        if self._connection is None:
            self._connection = read_only(self._file)
        return self._connection

    def close(self) -> None:
        """Close the connection; call this on the thread that reads."""
        if self._connection is not None:
            self._connection.close()


def read_only(file: SqliteFile) -> apsw.Connection:
    """A read-only connection."""
    connection = apsw.Connection(file.place, flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    return connection


def _empty_log(writer: apsw.Connection) -> None:
    """Move the whole log into the file that was opened, wherever it is now.

    Then that file contains everything that was acknowledged. A file put in its place finds an empty
    log; the pages of another file would damage it.
    """
    with suppress(apsw.Error):
        writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def _forget_statistics(connection: apsw.Connection) -> None:
    """Delete the query planner's statistics: they may be from when the tables were empty.

    After an ANALYZE by a user, settling a thousand lanes took seconds instead of milliseconds.
    """
    if connection.table_exists("main", "sqlite_stat1"):
        connection.execute(
            "delete from sqlite_stat1 where tbl glob 'duly_*'; analyze sqlite_schema"
        ).fetchall()


def _is_open(hold: Hold | None) -> bool:
    return hold is not None and not hold.over


_current_transaction: ContextVar[HeldWriter | None] = ContextVar("held_here", default=None)
"""The transaction that the current task has begun."""


def _check_path(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise BadSetting("database", f"the folder {folder} does not exist; make it first")
    writable = os.access(path if path.exists() else folder, os.W_OK)
    if not writable or path.is_dir():
        raise _unwritable(path)


def _unwritable(path: Path) -> BadSetting:
    return BadSetting("database", f"{path} cannot be written; choose another path")


@contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Raise StoreUnavailable for errors of the file, and pass on errors of the statement."""
    try:
        yield
    except FAULTS:
        raise
    except StoreUnavailable as error:
        error.source = error.source or path
        raise
    except (apsw.NotADBError, apsw.CorruptError) as error:
        problem = f"{path} is not a database that can be read: {error}"
        raise StoreUnavailable(problem, source=path) from error
    except apsw.Error as error:
        problem = f"SQLite could not work on {path}: {error}"
        raise StoreUnavailable(problem, source=path) from error
