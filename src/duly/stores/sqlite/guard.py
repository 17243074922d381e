"""Keeps other code of this process from breaking the locks of an open SQLite file.

POSIX locks belong to the process: a second SQLite library in it does not see them, and whichever
descriptor of the file it closes drops all of them. So it may empty the log's index or remove the
log while duly writes, and so may another process, which finds the file unlocked. Three things
prevent that:

- Python's own `sqlite3` is refused when it connects (an audit hook).
- Two locks are taken a second time as locks of SQLite's own descriptors, which no other close drops
  and which the same process sees: nobody removes the log or empties its index (Linux only).
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
"""The device and the inode of a file: the same under whatever name."""

DESCRIPTOR_FOLDERS = ("/proc/self/fd", "/dev/fd")
SHARED_LOCK = (0x4000_0002, 510)
"""Bytes that every connection locks in the file; whoever gets them alone removes the log."""
INDEX_IN_USE_LOCK = (128, 1)
"""The byte that every process locks in the `-shm` file; whoever gets it alone empties that."""
REMEDY = (
    "use app.transaction() for tables of your own in this file, or keep them in another file, or "
    "open this one in another process"
)

_openers: dict[Identity, list[int]] = {}
"""Of each file that duly has open here, the process that opened it, once for each opening."""


def identity_of(path: str | bytes | os.PathLike[Any]) -> Identity | None:
    """Which file is under the path; None if there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def descriptors_of(identity: Identity | None) -> list[int]:
    """This process's descriptors of a file; empty where the system does not list them."""
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
    """Take the locks that must outlast the close of any descriptor; whether that was possible."""
    shared = [_lock(each, fcntl.F_RDLCK, SHARED_LOCK) for each in descriptors_of(file)]
    in_use = [_lock(each, fcntl.F_RDLCK, INDEX_IN_USE_LOCK) for each in descriptors_of(index)]
    return any(shared) and any(in_use)


def release_locks(file: Identity, index: Identity | None) -> None:
    """Let the last connection that closes remove the log and its index."""
    for descriptor in descriptors_of(file):
        _lock(descriptor, fcntl.F_UNLCK, SHARED_LOCK)
    for descriptor in descriptors_of(index):
        _lock(descriptor, fcntl.F_UNLCK, INDEX_IN_USE_LOCK)


def _lock(descriptor: int, kind: int, place: tuple[int, int]) -> bool:
    # Other systems lack these locks or lay the structure out in another way, and some file systems
    # refuse them: there, only the audit hook and the look at descriptors remain.
    if sys.platform != "linux":
        return False
    request = struct.pack("hhqqi0q", kind, os.SEEK_SET, *place, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
    except OSError:
        return False
    return True


def remember_open(file: Identity) -> None:
    """Refuse it from now on to others of this process."""
    _openers.setdefault(file, []).append(os.getpid())
    # Where both use the system's library there is only one, and its connections know each other.
    if apsw.using_amalgamation:
        _watch_connections()


def forget_open(file: Identity) -> None:
    """One opening of it is over."""
    _openers[file].pop()
    if not _openers[file]:
        del _openers[file]


def openers(file: Identity | None) -> list[int]:
    """The process that has it open with duly, once for each opening: this one, or its parent."""
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
    # A name that begins so may also be a file's; there is hardly one.
    text = os.fsdecode(database) if isinstance(database, bytes) else database
    return unquote(urlsplit(text).path) if str(text).startswith("file:") else text
