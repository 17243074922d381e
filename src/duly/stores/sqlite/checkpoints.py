"""Moving what was committed from SQLite's log into the file, on a thread beside the writer.

By default whoever commits the thousandth page moves them all, and everyone else waits for it: with
a million schedules planned beside other work that was one wait in fifty (docs/decisions).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import apsw

from duly.errors import StoreUnavailable
from duly.stores.sqlite.file import SqliteFile

LOOK_SECONDS = 1.0
"""How often to look for other libraries that have the file open."""
WORTH_IT = 1000
"""Pages in the log; SQLite's own measure."""
TOO_MANY = 32_000
"""Here the writer does it itself: while others write, the log can be moved but not begin anew."""


class Checkpoints:
    """A thread that empties the log when it is worth it, and looks who else has the file open."""

    def __init__(self, connect: Callable[[], apsw.Connection], file: SqliteFile) -> None:
        self._connect = connect
        self._file = file
        self._due = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="duly-checkpoints", daemon=True)
        self._thread.start()

    def watch(self, writer: apsw.Connection) -> None:
        """Take over from SQLite for what this connection commits."""
        writer.set_wal_hook(self._committed)

    def _committed(self, writer: apsw.Connection, _: str, pages: int) -> int:
        if pages >= TOO_MANY:
            _move(writer)
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
                connection = self._moved(connection)
        if connection is not None:
            connection.close()

    def _moved(self, connection: apsw.Connection | None) -> apsw.Connection | None:
        # A file that cannot be opened or is not there any more is the writer's to tell; a thread
        # that ended would leave the log to grow.
        with contextlib.suppress(apsw.Error, StoreUnavailable):
            self._file.check()
            connection = connection or self._connect()
            _move(connection)
        return connection

    def close(self) -> None:
        """Let go of the file."""
        self._closing = True
        self._due.set()
        self._thread.join()


def _move(connection: apsw.Connection) -> None:
    # Whoever is at it already, or a full disk, only means that the log is moved later.
    with contextlib.suppress(apsw.Error):
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
