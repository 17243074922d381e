"""Copies an SQLite database as of one moment, while it is being written to.

A copy of the file alone would lack what is only in its log.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from duly.errors import Conflict, DulyError, InvalidInput
from duly.stores.sqlite.database import Sqlite

PAGES = 2000
"""Pages copied in one step: 8 MB, so that the copy can be stopped quickly."""
COMPANIONS = ("", "-journal", "-wal", "-shm")
OnStep = Callable[[int, int], None]
"""Called with the number of pages copied and the total."""


class CannotCopy(DulyError):
    """The copy could not be written, or is damaged."""


async def back_up(database: Sqlite, target: Path, on_step: OnStep, *, pages: int = PAGES) -> int:
    """Copy the database to a new file; returns the size in bytes.

    The file gets its name when it is complete and on disk. Only its owner may read it, and it needs
    no log file.
    """
    with _new_file(target) as part:
        copy = await _copy(database, part, on_step, pages)
        _finish(copy, part)
        return part.stat().st_size


async def _copy(database: Sqlite, part: Path, on_step: OnStep, pages: int) -> apsw.Connection:
    """Copy in steps from one snapshot; without it, each write by others would restart the copy."""
    copy = apsw.Connection(str(part))
    try:
        async with database.snapshot() as snapshot:
            await snapshot.read(lambda source: source.execute("select 1 from sqlite_schema").get)
            backup = await snapshot.read(lambda source: copy.backup("main", source, "main"))
            try:
                while not await snapshot.read(lambda _: _step(backup, pages, part)):
                    on_step(backup.page_count - backup.remaining, backup.page_count)
                on_step(backup.page_count, backup.page_count)
            finally:
                await snapshot.read(lambda _: backup.finish())
    except BaseException:
        copy.close()
        raise
    return copy


def _step(backup: apsw.Backup, pages: int, part: Path) -> bool:
    try:
        return backup.step(pages)
    except apsw.Error as error:
        raise CannotCopy(f"copying to {part.parent} failed: {error}") from error


def _finish(copy: apsw.Connection, part: Path) -> None:
    """Check the copy, and turn off its log so that it is a single file."""
    try:
        copy.execute("pragma journal_mode=delete").fetchall()
        report = [str(row[0]) for row in copy.execute("pragma quick_check")]
    finally:
        copy.close()
    if report != ["ok"]:
        raise CannotCopy(f"the copy is damaged, so the database is: {'; '.join(report[:3])}")
    with part.open("rb") as file:
        os.fsync(file.fileno())


@contextmanager
def _new_file(target: Path) -> Iterator[Path]:
    """A temporary file that is renamed to the target at the end, unless that exists by then."""
    if not target.parent.is_dir():
        raise InvalidInput("file", f"the folder {target.parent} does not exist; make it first")
    _refuse_existing(target)
    part: Path | None = None
    try:
        part = _temporary(target)
        yield part
        # Create the target first, so that the rename cannot overwrite another file.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        os.replace(part, target)
        _sync(target.parent)
    except FileExistsError:
        _refuse_existing(target)
        raise
    except (OSError, apsw.Error) as error:
        raise CannotCopy(f"{target} could not be written: {error}") from error
    finally:
        for each in COMPANIONS if part is not None else ():
            with suppress(OSError):
                os.unlink(f"{part}{each}")


def _temporary(target: Path) -> Path:
    descriptor, name = tempfile.mkstemp(".part", f".{target.name}.", target.parent)
    os.close(descriptor)
    return Path(name)


def _refuse_existing(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise Conflict(f"{target} exists, and is not overwritten; give the name of a new file")


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
