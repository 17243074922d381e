"""Lists at a terminal: ids and names are not cut and no column is missing, at any width."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App as CommandLine
from rich.cells import cell_len

import duly
from duly import App, Delivery
from duly.domain.monitoring.alerts import AlertCause
from duly.domain.schedules.origin import Origin
from duly.records.alert import AlertKind
from duly.surfaces.cli.command_line import COMMANDS, command_line
from duly.surfaces.cli.terminal.layout import laid_out
from duly.surfaces.cli.terminal.output import table
from duly.testing import run_until_idle
from tests.support.commands import run_command
from tests.surfaces.processes import Home, environment

pytestmark = pytest.mark.requirement("S6")

WIDTHS = (80, 100, 120)
NAMELESS = {"stats", "outages"}
"""Lists of numbers and moments."""
LONG = "a.name/that-is:as_long.as-it-may-be" + "-and-longer" * 15
STREAM = "a stream of 日本 " + "whose name has spaces " * 10
ERROR = "the bank said no to it, at length and for no reason that anybody here would understand"
NAMED = {"id", "name", "target", "stream", "subject", "actor", "fingerprint", "kind", "key"}
"""Fields that are shown in one piece; others, such as errors, may be wrapped at spaces."""
ALSO = {"top": (), "stats": ("--series", "--since", "1h")}
"""Lists of commands that take no limit."""


GIVEN = {("limits", "keys"): ("keyed",)}
"""What a list needs besides its flags."""


def lists() -> Iterator[tuple[str, ...]]:
    """Every command that takes a limit, which means every list."""
    whole = command_line(overview=False)
    for name in COMMANDS:
        command = whole[name]
        for sub in (None, *(each for each in command if not each.startswith("-"))):
            leaf = command if sub is None else command[sub]
            if _has_limit(leaf):
                yield (name,) if sub is None else (name, sub, *GIVEN.get((name, sub), ()))
    for name, arguments in ALSO.items():
        yield name, *arguments


def _has_limit(command: CommandLine) -> bool:
    if command.default_command is None:
        return False
    return any(each.name == "--limit" for each in command.assemble_argument_collection())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, sqlite_schema: Path) -> Home:
    folder = tmp_path_factory.mktemp("tables")
    shutil.copyfile(sqlite_schema, folder / "duly.db")
    found = Home(folder, f"sqlite:///{folder}/duly.db")
    asyncio.run(_fill_store(found))
    return found


async def _fill_store(home: Home) -> None:
    """Add rows to every list, with short names and with the longest that are allowed."""
    app = App(home.database, environment={})
    app.expect("log", "gone", LONG[:199])

    @app.handler(LONG[:200], retry=duly.no_retry)
    async def fails(delivery: Delivery[Any]) -> None:
        raise ValueError(f"{ERROR} {'x' * 150}")

    @app.handler("keyed", limits=duly.per("customer", in_flight=2))
    async def keyed(_: Delivery[Any]) -> None: ...

    async with app:
        for key in ("customer:7", LONG[:200]):
            await app.deliver("keyed", limit_key=key)
        for name in ("nightly", LONG[:200]):
            await app.batches.open(then=("log", None), name=name)
        await app.deliver("log", after=3600)
        long_ago = datetime.now(UTC) - timedelta(days=1)
        await app.deliver("gone", at=long_ago)
        await app.deliver(LONG[:199], at=long_ago, stream=STREAM)
        for _ in range(2):
            await app.deliver(LONG[:200], key=None)
            await app.deliver(LONG[:200], stream="short")
        await run_until_idle(app)
        for name in ("daily", LONG[:200]):
            await app.schedule(name, duly.cron("0 9 * * MON", tz="Europe/Oslo"), "log")
            await app.endpoints.add(name, f"https://example.org/{name}", rate=5)
            await app.keys.create(name)
            await app.calendars.set(name)
        for name in ("left", LONG[1:200]):
            origin = Origin(LONG[:200], f"{LONG[:100]}.send")
            await app.schedules.declare_in_code(origin, name, duly.every("1h"), "log")
            await app.store.declarations.leave(LONG[:200], [name])
        for name in ("v42", "v" * 100):
            await app.recovery.replay(name)
        await app.keys.create("a key of " + "people " * 25)
        await app.store.alerts.raise_one(AlertCause(AlertKind.CIRCUIT_OPEN, LONG[:200], ERROR))
    await home.execute("update duly.agenda set crashes = 1")
    await home.execute("update duly.workers set ended_at = null, beat_at = beat_at + 86400000000")


def shown(home: Home, *arguments: str, columns: int | None = None) -> str:
    """The output of a command at a terminal of that many columns, or in a pipe."""
    clean = environment({"DULY_DATABASE": home.database, "COLUMNS": str(columns or 80)})
    done = run_command(*arguments, environ=clean, at_terminal=columns is not None)
    assert done.returncode == 0, done.stderr
    return done.stdout


def names_in(document: Any) -> Iterator[str]:
    """Every id and name in a document."""
    if isinstance(document, list):
        for each in document:
            yield from names_in(each)
    elif isinstance(document, dict):
        for field, value in document.items():
            if field in NAMED and isinstance(value, str):
                yield value
            elif field in ("items", "workers", "head"):
                yield from names_in(value)
            elif field in ("handlers", "namespaces", "targets"):
                yield from value


@pytest.mark.parametrize("command", [*lists()], ids=" ".join)
def test_no_id_no_name_and_no_column_is_cut_or_lost(home: Home, command: tuple[str, ...]) -> None:
    piped = shown(home, *command)
    document = json.loads(shown(home, *command, "--json"))
    names = [each for each in names_in(document) if each in piped]
    assert names or command[0] in NAMELESS, "the list is empty, or shows no names"
    headings = [each for each in re.split(r"  +", _head(piped)) if each]
    for columns in WIDTHS:
        seen = shown(home, *command, columns=columns)
        lines = seen.splitlines()
        assert max(map(cell_len, lines)) <= columns
        rule = next(place for place, line in enumerate(lines) if set(line) == {"─"})
        head = re.split(r"  +", "  ".join(lines[:rule]))
        assert [each for each in head if each in headings][-len(headings) :] == headings
        for name in names:
            assert _has(seen, name, columns), (name, columns, seen)


def _head(piped: str) -> str:
    """The headings: the first line of a list, or of the table in `top`."""
    return piped.split("\n\n")[-1].splitlines()[0]


def _has(seen: str, name: str, columns: int) -> bool:
    if cell_len(name) <= columns - 4:
        return name in seen
    # Longer than a line: it continues at the same column of the next line.
    unbroken = re.sub(r"\s+", "", seen)
    return re.sub(r"\s+", "", name) in unbroken


def test_moments_have_seconds_at_a_terminal_and_milliseconds_elsewhere(
    home: Home,
) -> None:
    at = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?Z")
    assert {len(each[0]) for each in at.finditer(shown(home, "dead", "list"))} == {24}
    assert {len(each[0]) for each in at.finditer(shown(home, "dead", "list", columns=80))} == {20}


def test_in_a_pipe_each_row_is_one_line() -> None:
    assert table(("id", "error"), [("1", ERROR * 10)]).splitlines()[1] == f"1   {ERROR * 10}"


def test_columns_that_do_not_fit_are_below_and_text_is_wrapped_at_spaces() -> None:
    rows = [("0198c1f2-7a5e-7001-8000-00000000000a", "dead", "a reason of some words", "x" * 30)]
    assert laid_out(("id", "state", "error", "name"), rows, ("error",), 60) == [
        "id                                    state",
        "    error                   name",
        "─" * 58,
        "0198c1f2-7a5e-7001-8000-00000000000a  dead",
        "    a reason of some words  xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ]


def test_an_empty_list_has_a_message_only_at_a_terminal(
    tmp_path: Path, sqlite_schema: Path
) -> None:
    shutil.copyfile(sqlite_schema, tmp_path / "duly.db")
    empty = Home(tmp_path, f"sqlite:///{tmp_path}/duly.db")
    assert shown(empty, "late", columns=80).splitlines()[-1] == "none"
    assert len(shown(empty, "late").splitlines()) == 1
