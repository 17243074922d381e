"""`duly import`: take in what `duly export` wrote, once, however often it is run."""

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
from duly.surfaces.cli.terminal.output import answer, cell, progress, talk
from duly.surfaces.cli.transfer.exporting import in_words

Tally = dict[str, dict[str, int]]


@Parameter(name="*")
@dataclass(frozen=True)
class ImportFlags:
    """What is put up with."""

    skip_bad: Annotated[
        bool,
        Parameter(negative=(), help="Pass over what cannot be taken; else it ends there."),
    ] = False
    beside_workers: Annotated[
        bool,
        Parameter(negative=(), help="Even while workers are at work here; else that is refused."),
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
    """Take in what `duly export` wrote; safe to stop and repeat, and nothing is taken twice.

    It is read to its end before anything is written: what was cut off, or has a bad line, is
    refused as a whole. What is there already stays as it is.

    Parameters
    ----------
    file
        What to read; - is stdin, which is kept in a temporary file until its end has come.
    """
    manner = ImportOptions(
        dry_run=bulk.dry_run, skip_bad=how.skip_bad, beside_workers=how.beside_workers
    )
    tally: Tally = {kind: {"new": 0, "known": 0, "refused": 0} for kind in KINDS.values()}
    with _source(file) as source:
        app = app_for(common)
        survey = _surveyed(app, source, manner)
        _check_namespace(survey, app, common)
        if bulk.dry_run and not await _is_there(common):
            _tell_new(survey, tally)
        elif bulk.dry_run or bulk.wants(survey.total, _question(survey, app)):
            async with client(common, create=not bulk.dry_run) as app:
                await _bring_in(app, source, survey, manner, tally)
    bad = survey.bad + sum(each["refused"] for each in tally.values())
    document = {**tally, "bad": bad, "dry_run": bulk.dry_run}
    answer(common.json, document, lambda: _in_words(tally, bad, bulk.dry_run))
    return FAILED if bad else 0


@contextmanager
def _source(file: str) -> Iterator[IO[bytes]]:
    """What can be read twice."""
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


def _surveyed(app: App, source: IO[bytes], manner: ImportOptions) -> Survey:
    with progress("reading", source.seek(0, os.SEEK_END)) as advance:
        return app.importing.survey(_lines(source, advance), manner, _tell_bad)


def _lines(source: IO[bytes], advance: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
    """From the first on; one that has no end does not fill the memory."""
    source.seek(0)
    while line := source.readline(LONGEST_LINE + 1):
        advance(len(line))
        yield line


def _check_namespace(survey: Survey, app: App, common: Common) -> None:
    theirs, ours = survey.heading.namespace, app.settings.namespace
    if theirs != ours and common.namespace is None:
        raise InvalidInput(
            "namespace",
            f"the file is of namespace {theirs!r}, and this is {ours!r}; "
            f"give --namespace {theirs}, or another on purpose",
        )


async def _is_there(common: Common) -> bool:
    """Whether there is a store, if perhaps not up to date."""
    database = database_of(app_for(common))
    if isinstance(database, Sqlite) and not database.path.exists():
        return False
    async with schema_of(common) as found:
        return bool((await migrations.status(found)).applied)


def _tell_new(survey: Survey, tally: Tally) -> None:
    talk("there is no store yet; an import makes it")
    for kind, count in survey.counts.items():
        tally[kind]["new"] = count


def _question(survey: Survey, app: App) -> str:
    heading = survey.heading
    return (
        f"It holds {in_words(survey.counts)}, exported at {cell(heading.exported_at)} from "
        f"namespace {heading.namespace}.\nImport them into namespace {app.settings.namespace}?"
    )


async def _bring_in(
    app: App, source: IO[bytes], survey: Survey, manner: ImportOptions, tally: Tally
) -> None:
    try:
        with progress("importing", survey.total) as advance:
            brought = app.importing.bring_in(_lines(source), survey, manner, _tell_bad)
            async for each in stoppable(brought):
                for name in ("new", "known", "refused"):
                    tally[each.kind][name] += getattr(each, name)
                    advance(getattr(each, name))
    except STOPS as stop:
        done = stopped_after(sum(sum(each.values()) for each in tally.values()), stop)
        talk(f"stopped after {done} of {survey.total}; the same command goes on with the rest")
        raise


def _tell_bad(number: int, problem: str) -> None:
    talk(f"line {number}: {problem}")


def _in_words(tally: Tally, bad: int, dry_run: bool) -> str:
    new, known = ({kind: each[name] for kind, each in tally.items()} for name in ("new", "known"))
    verb = "would be imported" if dry_run else "imported"
    told = [f"{in_words(new)} {verb}"]
    if any(known.values()):
        told.append(f"{in_words({kind: n for kind, n in known.items() if n})} there already")
    if bad:
        told.append(f"{bad} bad lines passed over")
    return "\n".join(told)
