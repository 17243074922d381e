"""Prevents other code of this process from breaking the locks of an open SQLite file.

POSIX locks belong to the process: a second SQLite library in it does not see them, and when it
closes any descriptor of the file, all of them are dropped. Then that library, or another process
that finds the file unlocked, may empty the log's index or remove the log while duly writes. Three
things prevent that:

- Python's `sqlite3` is refused when it connects (an audit hook).
- Two locks are also taken as locks of SQLite's descriptors. These are not dropped by another close
  and are seen by the same process, so no library removes the log or empties its index (Linux only).
- Any other library is found by its descriptors: at open, and then once a second.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from collections.abc import Collection
from functools import cache
from typing import Any
from urllib.parse import unquote, urlsplit

import apsw

from duly.errors import Conflict

Identity = tuple[int, int]
"""The device and the inode of a file, which do not depend on its name."""

DESCRIPTOR_FOLDERS = ("/proc/self/fd", "/dev/fd")
SHARED_LOCK = (0x4000_0002, 510)
"""Bytes that every connection locks in the file; a connection alone on them removes the log."""
INDEX_IN_USE_LOCK = (128, 1)
"""The byte that every process locks in the `-shm` file; a process alone on it empties the file."""
REMEDY = (
    "use app.transaction() for tables of your own in this file, or keep them in another file, or "
    "open this one in another process"
)

_openers: dict[Identity, list[int]] = {}
"""For each file that duly has open, the process that opened it, once for each opening."""


def identity_of(path: str | bytes | os.PathLike[Any]) -> Identity | None:
    """The identity of the file at a path; None if there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def descriptors_of(identity: Identity | None) -> list[int]:
    """This process's descriptors of a file; empty if the system does not list them."""
    found = []
    for name in _listed():
        try:
            status = os.fstat(int(name))
        except OSError:
            continue  # closed meanwhile
        if (status.st_dev, status.st_ino) == identity:
            found.append(int(name))
    return found


def _listed() -> Collection[str]:
    for folder in DESCRIPTOR_FOLDERS:
        try:
            return os.listdir(folder)
        except OSError:
            continue
    return ()


def is_shared_with_another_library(index: Identity | None) -> bool:
    """Whether the `-shm` file is open twice: a library opens it once for all its connections."""
    return len(descriptors_of(index)) > 1


def hold_locks(file: Identity, index: Identity | None) -> bool:
    """Take the locks that survive the close of a descriptor; returns whether that succeeded."""
    shared = [_lock(each, fcntl.F_RDLCK, SHARED_LOCK) for each in descriptors_of(file)]
    in_use = [_lock(each, fcntl.F_RDLCK, INDEX_IN_USE_LOCK) for each in descriptors_of(index)]
    return any(shared) and any(in_use)


def release_locks(file: Identity, index: Identity | None) -> None:
    """Release the locks, so that the last connection can remove the log and its index."""
    for descriptor in descriptors_of(file):
        _lock(descriptor, fcntl.F_UNLCK, SHARED_LOCK)
    for descriptor in descriptors_of(index):
        _lock(descriptor, fcntl.F_UNLCK, INDEX_IN_USE_LOCK)


def _lock(descriptor: int, kind: int, place: tuple[int, int]) -> bool:
    # Other systems lack these locks or use another structure layout, and some file systems refuse
    # them: then only the audit hook and the check of descriptors remain.
    if sys.platform != "linux":
        return False
    request = struct.pack("hhqqi0q", kind, os.SEEK_SET, *place, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
    except OSError:
        return False
    return True


def remember_open(file: Identity) -> None:
    """Refuse the file to other libraries of this process from now on."""
    _openers.setdefault(file, []).append(os.getpid())
    # Otherwise apsw and `sqlite3` share the system's library, which knows all its connections.
    if apsw.using_amalgamation:
        _watch_connections()


def forget_open(file: Identity) -> None:
    """Undo one `remember_open`."""
    _openers[file].pop()
    if not _openers[file]:
        del _openers[file]


def openers(file: Identity | None) -> list[int]:
    """The process that opened the file, once for each opening: this one, or its parent."""
    return _openers.get(file, []) if file is not None else []


@cache
def _watch_connections() -> None:
    sys.addaudithook(_refuse_connection)


def _refuse_connection(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "sqlite3.connect" or not _openers:
        return
    path = _path_of(arguments[0])
    if os.getpid() in openers(identity_of(path)):
        raise Conflict(
            f"duly has {os.fsdecode(path)} open in this process, and two SQLite libraries in one "
            f"process damage a file; {REMEDY}"
        )


def _path_of(database: Any) -> Any:
    # A plain file name may also start with "file:", but that is rare.
    text = os.fsdecode(database) if isinstance(database, bytes) else database
    return unquote(urlsplit(text).path) if str(text).startswith("file:") else text
