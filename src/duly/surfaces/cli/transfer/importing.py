"""`duly import`: imports a file of `duly export`; repeating it imports nothing twice."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import IO, Annotated

from cyclopts import Parameter

from duly.app import App
from duly.domain.transfer.entries import KINDS
from duly.domain.transfer.reader import LONGEST_LINE, Survey
from duly.errors import InvalidInput
from duly.services.transfer.importing import ImportOptions
from duly.stores import migrations
from duly.stores.sqlite.database import Sqlite
from duly.surfaces.cli.server.migrate import schema_of
from duly.surfaces.cli.terminal.bulk import BULK, STOPS, Bulk, stoppable, stopped_after
from duly.surfaces.cli.terminal.delivery_options import STDIN
from duly.surfaces.cli.terminal.exit_codes import FAILED
from duly.surfaces.cli.terminal.flags import COMMON, Common, app_for, client, database_of
from duly.surfaces.cli.terminal.output import answer, cell, print_message, progress
from duly.surfaces.cli.transfer.exporting import in_words

Tally = dict[str, dict[str, int]]


@Parameter(name="*")
@dataclass(frozen=True)
class ImportFlags:
    """Flags of an import."""

    skip_bad: Annotated[
        bool,
        Parameter(negative=(), help="Skip lines that cannot be imported, instead of stopping."),
    ] = False
    beside_workers: Annotated[
        bool,
        Parameter(negative=(), help="Import even while workers run on this store."),
    ] = False


HOW = ImportFlags()


async def import_(
    file: str = STDIN,
    /,
    *,
    how: ImportFlags = HOW,
    bulk: Bulk = BULK,
    common: Common = COMMON,
) -> int:
    """Import a file of `duly export`; safe to stop and repeat, and nothing is imported twice.

    The whole file is checked before anything is written: if it is incomplete or has a bad line,
    nothing is imported. What exists already is not changed.

    Parameters
    ----------
    file
        The file to read; - is stdin, which is first copied to a temporary file.
    """
    options = ImportOptions(
        dry_run=bulk.dry_run, skip_bad=how.skip_bad, beside_workers=how.beside_workers
    )
    tally: Tally = {kind: {"new": 0, "known": 0, "refused": 0} for kind in KINDS.values()}
    with _source(file) as source:
        app = app_for(common)
        survey = _surveyed(app, source, options)
        _check_namespace(survey, app, common)
        if bulk.dry_run and not await _exists(common):
            _count_new(survey, tally)
        elif bulk.dry_run or bulk.should_run(survey.total, _question(survey, app)):
            async with client(common, create=not bulk.dry_run) as app:
                await _import(app, source, survey, options, tally)
    bad = survey.bad + sum(each["refused"] for each in tally.values())
    document = {**tally, "bad": bad, "dry_run": bulk.dry_run}
    answer(common.json, document, lambda: _in_words(tally, bad, bulk.dry_run))
    return FAILED if bad else 0


@contextmanager
def _source(file: str) -> Iterator[IO[bytes]]:
    """The file, or a copy of it that can be read twice."""
    try:
        with open(file, "rb") if file != STDIN else nullcontext(sys.stdin.buffer) as given:
            if file != STDIN and given.seekable():
                yield given
            else:
                with tempfile.TemporaryFile() as source:
                    shutil.copyfileobj(given, source)
                    yield source
    except OSError as error:
        raise InvalidInput("file", f"{file} cannot be read: {error.strerror}") from error


def _surveyed(app: App, source: IO[bytes], options: ImportOptions) -> Survey:
    with progress("reading", source.seek(0, os.SEEK_END)) as advance:
        return app.importing.survey(_lines(source, advance), options, _print_bad)


def _lines(source: IO[bytes], advance: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
    """The lines from the start, each cut at a limit so that it cannot fill the memory."""
    source.seek(0)
    while line := source.readline(LONGEST_LINE + 1):
        advance(len(line))
        yield line


def _check_namespace(survey: Survey, app: App, common: Common) -> None:
    theirs, ours = survey.heading.namespace, app.settings.namespace
    if theirs != ours and common.namespace is None:
        raise InvalidInput(
            "namespace",
            f"the file is from namespace {theirs!r}, and this is {ours!r}; "
            f"give --namespace {theirs}, or the namespace to import into",
        )


async def _exists(common: Common) -> bool:
    database = database_of(app_for(common))
    if isinstance(database, Sqlite) and not database.path.exists():
        return False
    async with schema_of(common) as found:
        return bool((await migrations.status(found)).applied)


def _count_new(survey: Survey, tally: Tally) -> None:
    print_message("there is no store yet; an import creates it")
    for kind, count in survey.counts.items():
        tally[kind]["new"] = count


def _question(survey: Survey, app: App) -> str:
    heading = survey.heading
    return (
        f"The file has {in_words(survey.counts)}, exported at {cell(heading.exported_at)} from "
        f"namespace {heading.namespace}.\nImport them into namespace {app.settings.namespace}?"
    )


async def _import(
    app: App, source: IO[bytes], survey: Survey, options: ImportOptions, tally: Tally
) -> None:
    try:
        with progress("importing", survey.total) as advance:
            batches = app.importing.write(_lines(source), survey, options, _print_bad)
            async for each in stoppable(batches):
                for name in ("new", "known", "refused"):
                    tally[each.kind][name] += getattr(each, name)
                    advance(getattr(each, name))
    except STOPS as stop:
        done = stopped_after(sum(sum(each.values()) for each in tally.values()), stop)
        print_message(f"stopped after {done} of {survey.total}; the same command imports the rest")
        raise


def _print_bad(number: int, problem: str) -> None:
    print_message(f"line {number}: {problem}")


def _in_words(tally: Tally, bad: int, dry_run: bool) -> str:
    new, known = ({kind: each[name] for kind, each in tally.items()} for name in ("new", "known"))
    verb = "would be imported" if dry_run else "imported"
    lines = [f"{in_words(new)} {verb}"]
    if any(known.values()):
        lines.append(f"{in_words({kind: n for kind, n in known.items() if n})} already exist")
    if bad:
        lines.append(f"{bad} bad lines skipped")
    return "\n".join(lines)
