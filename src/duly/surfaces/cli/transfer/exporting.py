"""`duly export`: writes a namespace to a text file that `duly import` reads."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import IO, Annotated

from cyclopts import Parameter

from duly.app import App
from duly.domain.transfer.entries import KINDS
from duly.errors import DulyError
from duly.safe_text import safe_json
from duly.services.transfer.exporting import ExportSummary
from duly.surfaces.cli.terminal.delivery_options import STDIN as STDOUT
from duly.surfaces.cli.terminal.flags import COMMON, Common, client
from duly.surfaces.cli.terminal.output import answer, print_message, progress

Counts = dict[str, int]


class CannotWrite(DulyError):
    """The file cannot be created, or the disk is full."""


async def export(
    file: str = STDOUT,
    /,
    *,
    all: Annotated[
        bool,
        Parameter(negative=(), help="Also completed and cancelled deliveries: keeps their keys."),
    ] = False,
    with_secrets: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Also secrets of endpoints and headers that look like credentials, in plain text.",
        ),
    ] = False,
    common: Common = COMMON,
) -> None:
    """Write the current endpoints, streams, calendars, schedules and deliveries, a line each.

    Workers may run meanwhile; deliveries that they hold are exported as due. `duly import` reads
    the file.

    Parameters
    ----------
    file
        The file to write, readable by its owner only; it appears once it is complete. - is stdout.
    """
    async with client(common) as app:
        await _warn_of_workers(app)
        with _destination(file) as out, progress("exporting", None) as advance:
            lines = app.exporting.lines(everything=all, with_secrets=with_secrets)
            async with aclosing(lines):
                counts, missing = await _written(lines, out, advance)
    summary = f"{in_words(counts)} exported"
    if file == STDOUT:
        print_message(summary)
    else:
        answer(common.json, {"file": file, **counts, "missing": missing}, lambda: summary)
    _warn_of_missing(missing)


async def _written(
    lines: AsyncIterator[ExportSummary], out: IO[bytes], advance: Callable[[int], None]
) -> tuple[Counts, Counts]:
    """Write the lines; returns the number of each kind, and how many of them lack a secret."""
    counts, missing = dict.fromkeys(KINDS.values(), 0), Counter[str]()
    is_seen = out.isatty()
    async for each in lines:
        out.write(safe_json(each.line.decode(errors="replace")).encode() if is_seen else each.line)
        if each.kind is not None:
            counts[each.kind] += 1
            missing[each.kind] += bool(each.missing)
            advance(1)
    return counts, {kind: missing[kind] for kind in counts if missing[kind]}


@contextmanager
def _destination(file: str) -> Iterator[IO[bytes]]:
    """Where the lines are written; a file gets its name once all is on disk."""
    try:
        if file == STDOUT:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        elif (path := Path(file)).exists() and not path.is_file():
            with path.open("wb") as out:
                yield out
        else:
            with _replaced(path.resolve()) as out:
                yield out
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotWrite(f"{file} cannot be written: {error.strerror or error}") from error


@contextmanager
def _replaced(path: Path) -> Iterator[IO[bytes]]:
    with tempfile.NamedTemporaryFile(
        dir=path.parent, prefix=f".{path.name}.", suffix=".part", delete=False
    ) as out:
        try:
            yield out
            out.flush()
            os.fsync(out.fileno())
            os.replace(out.name, path)
        except BaseException:
            Path(out.name).unlink(missing_ok=True)
            raise


async def _warn_of_workers(app: App) -> None:
    if any(each.alive for each in await app.store.workers.all()):
        print_message(
            "workers run on this store: the export is complete as a backup, but to move to another "
            "store stop them first, or deliveries may be made twice"
        )


def in_words(counts: Mapping[str, int]) -> str:
    """The number of each kind, as text."""
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _warn_of_missing(missing: Counts) -> None:
    if missing.get("endpoints"):
        print_message(
            f"{missing['endpoints']} endpoints are without their secrets, and will be paused after "
            "an import until they have new ones; --with-secrets exports the secrets too"
        )
    rest = {kind: count for kind, count in missing.items() if kind != "endpoints"}
    if rest:
        print_message(
            f"{in_words(rest)} are without headers that look like credentials, and cannot be "
            "imported; --with-secrets exports the headers too"
        )
