"""Moves committed pages from SQLite's log into the file, on a separate thread.

By default, the commit of the thousandth page moves them all, and all other writes wait for it. With
a million schedules planned beside other work, one write in fifty waited (docs/decisions).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import apsw

from duly.errors import StoreUnavailable
from duly.stores.sqlite.file import SqliteFile

LOOK_SECONDS = 1.0
"""Seconds between two checks for other libraries that have the file open."""
WORTH_IT = 1000
"""Pages in the log that start a checkpoint; SQLite's default."""
TOO_MANY = 32_000
"""Pages in the log at which the writer makes the checkpoint itself: while it writes, the thread can
move pages, but the log cannot restart from its beginning."""


class Checkpoints:
    """A thread that makes checkpoints, and checks for other libraries that have the file open."""

    def __init__(self, connect: Callable[[], apsw.Connection], file: SqliteFile) -> None:
        self._connect = connect
        self._file = file
        self._due = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="duly-checkpoints", daemon=True)
        self._thread.start()

    def watch(self, writer: apsw.Connection) -> None:
        """Replace SQLite's automatic checkpoints for the commits of this connection."""
        writer.set_wal_hook(self._on_commit)

    def _on_commit(self, writer: apsw.Connection, _: str, pages: int) -> int:
        if pages >= TOO_MANY:
            _move_pages(writer)
        elif pages >= WORTH_IT:
            self._due.set()
        return apsw.SQLITE_OK

    def _run(self) -> None:
        connection: apsw.Connection | None = None
        while not self._closing:
            is_due = self._due.wait(LOOK_SECONDS)
            self._due.clear()
            self._file.look()
            if is_due:
                connection = self._checkpoint(connection)
        if connection is not None:
            connection.close()

    def _checkpoint(self, connection: apsw.Connection | None) -> apsw.Connection | None:
        # The writer reports a file that is missing or cannot be opened. This thread must not end,
        # or the log would grow without limit.
        with contextlib.suppress(apsw.Error, StoreUnavailable):
            self._file.check()
            connection = connection or self._connect()
            _move_pages(connection)
        return connection

    def close(self) -> None:
        """Stop the thread and close its connection."""
        self._closing = True
        self._due.set()
        self._thread.join()


def _move_pages(connection: apsw.Connection) -> None:
    # A concurrent checkpoint or a full disk only delays this one.
    with contextlib.suppress(apsw.Error):
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
