"""`duly backup`: copies an SQLite store while a server uses it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from duly.domain.database_urls import shown
from duly.errors import InvalidInput
from duly.stores.sqlite.backup import back_up
from duly.stores.sqlite.database import Sqlite
from duly.surfaces.cli.server.migrate import schema_of
from duly.surfaces.cli.terminal.flags import COMMON, Common, database_of, store_app
from duly.surfaces.cli.terminal.output import answer, progress


async def backup(file: Path, /, *, common: Common = COMMON) -> None:
    """Copy an SQLite store to a new file; a server may use the store meanwhile.

    The copy is checked, and only its owner can read it. For PostgreSQL it prints the command.

    Parameters
    ----------
    file
        The new file; an existing one is not overwritten.
    """
    app = store_app(common)
    if not isinstance(database_of(app), Sqlite):
        raise InvalidInput("database", _dump(app.settings.database, file))
    async with schema_of(common) as database:
        assert isinstance(database, Sqlite)
        with progress("copying", 100) as advance:
            size = await back_up(database, file, _percent(advance))
        source = str(database.path)
    document = {"file": str(file), "bytes": size, "database": source}
    answer(common.json, document, lambda: f"{file} has {size} bytes, copied from {source}")


def _dump(url: str, file: Path) -> str:
    where = shown(url) if url.startswith("postgres") else "URL"
    command = ["pg_dump", "--format=custom", f"--file={file}", f"--dbname={where}"]
    return f"this store is on PostgreSQL, which has its own command: {shlex.join(command)}"


def _percent(advance: Callable[[int], None]) -> Callable[[int, int], None]:
    shown = 0

    def step(copied: int, pages: int) -> None:
        nonlocal shown
        percent = 100 * copied // max(pages, 1)
        advance(percent - shown)
        shown = percent

    return step
