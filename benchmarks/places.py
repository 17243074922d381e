"""Where benchmarks run: temporary databases, other processes, and counts of a store."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import duly
from duly.stores.postgres.database import Postgres
from duly.stores.sqlite.database import Sqlite
from tests.support.postgres import Server

ROOT = Path(__file__).resolve().parents[1]
INHERITED = os.environ.get("PYTHONPATH", "")
numbers = count(1)


def python_path(root: Path) -> str:
    """The PYTHONPATH with which a commit in this folder comes before the installed package.

    What it needs and the installed one does not is found in the PYTHONPATH of the benchmark.
    """
    return os.pathsep.join(filter(None, (str(root / "src"), str(root), INHERITED)))


@contextmanager
def server() -> Iterator[Server]:
    """A PostgreSQL server with its default durability."""
    with Server() as started:
        yield started


async def fresh(kind: str, postgres: Server | None, folder: Path) -> str:
    """The URL of an empty database."""
    number = next(numbers)
    if kind == "sqlite":
        return f"sqlite:///{folder}/bench{number}.db"
    assert postgres is not None
    return await postgres.create_database(f"bench{number}")


@contextmanager
def folder() -> Iterator[Path]:
    """A temporary folder."""
    with tempfile.TemporaryDirectory(prefix="duly-bench-") as made:
        yield Path(made)


def in_process(
    module: str, *arguments: object, timeout: float = 600, root: Path = ROOT
) -> dict[str, Any]:
    """Run a benchmark's module in its own process and return its JSON line."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=root, check=False, capture_output=True, text=True, timeout=timeout
    )
    if done.returncode:
        raise RuntimeError(f"{module} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


async def commits(app: duly.App) -> int:
    """How many transactions the store has committed."""
    database = app.store.database  # type: ignore[attr-defined]
    if isinstance(database, Sqlite):
        assert database._writer is not None
        return database._writer.commits
    assert isinstance(database, Postgres)
    async with database.shared() as connection:
        # The server delays its statistics for a moment.
        await connection.execute("select pg_stat_force_next_flush()")
        return int(
            await connection.fetchval(
                "select xact_commit from pg_stat_database where datname = current_database()"
            )
        )
