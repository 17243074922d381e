"""An open SQLite file: whether it still exists, is the same file, and has one owner.

A file that was deleted or replaced can still be written to, but those writes are lost. So after
each commit, before it is acknowledged, the writer checks that the file, its `-wal` and its `-shm`
file are still those that were opened.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from weakref import WeakSet

import apsw

from duly.errors import StoreIsOwned, StoreUnavailable
from duly.stores.sqlite.guard import (
    REMEDY,
    Identity,
    descriptors_of,
    forget_open,
    hold_locks,
    identity_of,
    is_shared_with_another_library,
    openers,
    release_locks,
    remember_open,
)

OWNER_ONLY = 0o600
"""The file contains payloads, secrets and keys."""
_open_lock = threading.Lock()
"""Held while a file is opened or closed: of two concurrent openings, each would look like another
library to the other."""


_owners: WeakSet[SqliteFile] = WeakSet()


@cache
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_disown_all)


def _disown_all() -> None:
    # A child process that outlives its parent would keep the lock, and no server could start.
    for each in _owners:
        each.disown()


class Stranded(StoreUnavailable):
    """The file or its log was moved, deleted or replaced: only this process still has both."""


class SqliteFile:
    """A file opened by one `Sqlite`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.place = str(path)
        """The absolute path, valid even if the process changes its working directory."""
        self._identity: Identity | None = None
        self._index: Identity | None = None
        self._expected: list[tuple[str, Identity]] = []
        self._process = os.getpid()
        self._is_guarded = False
        self._problem: str | None = None
        self._lock_path = ""
        self._lock_file: int | None = None
        self._lock_identity: Identity | None = None

    @contextmanager
    def being_opened(self) -> Iterator[Callable[[apsw.Connection], None]]:
        """Refuse a file that other code of this process has open.

        Gives a function to call with the first connection.
        """
        with _open_lock:
            self.place = os.path.abspath(self.path)
            self._refuse_if_shared()
            self._create_private()
            yield self._opened

    def _refuse_if_shared(self) -> None:
        file = identity_of(self.place)
        known = openers(file)
        if known and os.getpid() not in known:
            raise self._forked()
        index = identity_of(f"{os.path.realpath(self.place)}-shm")
        is_open_elsewhere = not known and descriptors_of(file)
        if is_open_elsewhere or len(descriptors_of(index)) > bool(known):
            raise StoreUnavailable(self._shared)

    def _create_private(self) -> None:
        # SQLite creates files that everybody may read. The -wal and -shm files get the same rights
        # as this one. O_EXCL: closing a descriptor of a file that is open would drop its locks.
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        with suppress(OSError):  # it exists, or SQLite reports why it cannot be created
            os.close(os.open(os.path.realpath(self.place), flags, OWNER_ONLY))

    def _opened(self, connection: apsw.Connection) -> None:
        real = connection.filename
        paths = (self.place, f"{real}-wal", f"{real}-shm")
        found = [(path, identity_of(path)) for path in paths]
        self._expected = [(path, each) for path, each in found if each is not None]
        self._identity, self._index = found[0][1], found[2][1]
        self._process = os.getpid()
        if self._identity is not None:
            remember_open(self._identity)
            self._is_guarded = hold_locks(self._identity, self._index)

    def closing(self) -> None:
        """Call this before the last connection is closed, so that SQLite can remove the log."""
        with _open_lock:
            if self._identity is not None and len(openers(self._identity)) == 1:
                release_locks(self._identity, self._index)

    def closed(self) -> None:
        """Call this when all connections are closed."""
        with _open_lock:
            if self._identity is not None:
                forget_open(self._identity)
            self._identity, self._index, self._expected = None, None, []

    def disown(self) -> None:
        """Release the owner's lock, if it is held."""
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = self._lock_identity = None

    @property
    def is_forked(self) -> bool:
        """Whether this is a forked child of the process that opened the file."""
        return self._identity is not None and self._process != os.getpid()

    def check_process(self) -> None:
        """Refuse a forked child of the process that opened the file: it lacks the threads."""
        if self.is_forked:
            raise self._forked()

    def look(self) -> None:
        """Look for other SQLite libraries and a lost lock; microseconds for each descriptor."""
        if is_shared_with_another_library(self._index):
            self._problem = self._shared
        else:
            self._problem = self._retake_lock()

    def check(self) -> None:
        """Raise StoreUnavailable if the files are not those that were opened; microseconds."""
        if self._problem is not None:
            raise StoreUnavailable(self._problem)
        for path, identity in self._expected:
            present = identity_of(path)
            if present != identity:
                raise self._changed(path, present)

    def own(self) -> None:
        """Take the lock of the one server on this file; the system releases it with the process."""
        if self._lock_file is None:
            self._lock_path = f"{os.path.realpath(self.place)}.lock"
            self._lock_file, self._lock_identity = self._take_lock()
            _owners.add(self)
            _watch_forks()

    def _retake_lock(self) -> str | None:
        # If the lock file was removed, take the lock again, so that no second server can start.
        is_held = self._lock_identity in (None, identity_of(self._lock_path))
        if is_held or identity_of(self.place) != self._identity:
            return None
        try:
            lock, identity = self._take_lock()
        except (StoreIsOwned, OSError) as error:
            return (
                f"{self.path}.lock was removed while duly ran, and cannot be locked again: "
                f"{error}; stop this process"
            )
        self.disown()
        self._lock_file, self._lock_identity = lock, identity
        return None

    def _take_lock(self) -> tuple[int, Identity | None]:
        while True:
            lock = os.open(self._lock_path, os.O_CREAT | os.O_RDWR, OWNER_ONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(lock, 100, 0).decode(errors="replace").strip() or "unknown"
                os.close(lock)
                raise StoreIsOwned(
                    f"another duly (process {holder}) already runs on {self.path}; stop it, choose "
                    "another file, or use PostgreSQL to run several"
                ) from None
            status = os.fstat(lock)
            identity = status.st_dev, status.st_ino
            if identity == identity_of(self._lock_path):
                break
            os.close(lock)  # removed before it was locked, so the lock would have no effect
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        return lock, identity

    def _changed(self, path: str, present: Identity | None) -> StoreUnavailable:
        if path != self.place:
            # Without the guard's locks, another process may have removed the log and written since.
            is_stranded = path.endswith("-wal") and present is None and self._is_guarded
            kind = Stranded if is_stranded else StoreUnavailable
            return kind(
                f"{path} was deleted or replaced while duly had {self.path} open; nothing is "
                "accepted any more: restart duly, and leave the -wal and -shm files alone"
            )
        if present is None:
            return Stranded(
                f"{self.path} is gone: it was deleted or moved while duly had it open; nothing is "
                "accepted until the same file is back. To begin with a new one, restart duly"
            )
        return Stranded(
            f"{self.path} was replaced by another file while duly had it open; nothing is accepted "
            "any more: restart duly to use the file that is there now"
        )

    @property
    def _shared(self) -> str:
        return (
            f"other code of this process has {self.path} open, and two SQLite libraries in one "
            f"process damage a file; close it there, and {REMEDY}"
        )

    def _forked(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.path} was opened before this process was forked, and a child cannot use its "
            "parent's SQLite file; fork first and open it afterwards, or start a new process "
            "(multiprocessing: the start method 'spawn')",
            source=self.path,
        )
