"""People from a CSV file, in batches, each of them one transaction.

Somebody's id follows from what the line says, so a file that was interrupted is imported again
from its beginning, and nobody comes in twice.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, TextIO
from uuid import UUID, uuid5

import msgspec

from duly.errors import InvalidInput
from duly_birthday.users.checks import NAMES, REQUIRED
from duly_birthday.users.sql import Dialect
from duly_birthday.wire import Birthdays, Refused


class Pace(msgspec.Struct, frozen=True):
    """How many lines are one transaction, and whether each is followed by as long a rest."""

    lines: int
    rests: bool


PACE: dict[Dialect, Pace] = {
    "postgres": Pace(100, rests=False),
    # A file has one writer, and whoever waits for it looks only now and then.
    "sqlite": Pace(50, rests=True),
}
"""So that others who are asked meanwhile wait for a moment at most."""
LINES = UUID("6f1d6a3e-4b1c-4f0e-9a53-0d9b1c7e2f11")
"""Where the ids of imported people come from; any constant would do."""


class Line(msgspec.Struct, frozen=True):
    """One line of the file, by the names of its columns; `problem` when it has none to tell."""

    number: int
    given: dict[str, str]
    problem: str | None = None

    @property
    def id(self) -> str:
        """The same for the same words."""
        said = "\x1f".join(self.given.get(name, "") for name in NAMES)
        # Bytes that are no text come as surrogates, and are refused only after this.
        return str(uuid5(LINES, said.encode(errors="backslashreplace").decode()))


class Summary(msgspec.Struct):
    """What became of a file so far."""

    lines: int = 0
    created: int = 0
    known: int = 0
    refused: int = 0


Refuse = Callable[[int, str], None]
"""Told of each line that is not taken, and why."""


async def import_people(
    birthdays: Birthdays, file: TextIO, refuse: Refuse, progress: Callable[[Summary], None]
) -> Summary:
    """Take in everybody whose line can be read; `progress` is called after each batch."""
    summary, seen = Summary(), dict[str, int]()
    lines, pace = _read(file), PACE[birthdays.dialect]
    while batch := list(islice(lines, pace.lines)):
        began = birthdays.clock.monotonic()
        fresh = [each for each in batch if _is_fresh(each, seen, summary, refuse)]
        taken = await birthdays.register_many(
            [each.given for each in fresh], [each.id for each in fresh]
        )
        for refused in taken.refused:
            refuse(fresh[refused.index].number, _reasons(refused))
        summary.lines += len(batch)
        summary.created += len(taken.created)
        summary.known += taken.known
        summary.refused += len(taken.refused)
        progress(summary)
        if pace.rests:
            await birthdays.clock.sleep(birthdays.clock.monotonic() - began)
    return summary


def _read(file: TextIO) -> Iterator[Line]:
    rows = csv.reader(file)
    header = _next(rows) or []
    _check_header(header)
    while (row := _next(rows)) is not None:
        if row:
            yield _line(rows.line_num, header, row)


def _next(rows: Any) -> list[str] | None:
    try:
        return next(rows, None)
    except csv.Error as error:
        raise InvalidInput("file", f"line {rows.line_num} cannot be read: {error}") from error


def _line(number: int, header: list[str], row: list[str]) -> Line:
    if len(row) != len(header):
        return Line(number, {}, f"has {len(row)} fields, and the first line has {len(header)}")
    given = dict(zip(header, row, strict=True))
    if not given.get("feb29", "-"):
        del given["feb29"]
    return Line(number, given)


def _check_header(header: list[str]) -> None:
    missing = [name for name in REQUIRED if name not in header]
    unknown = [name for name in header if name not in NAMES]
    if missing or unknown or len(set(header)) != len(header):
        raise InvalidInput(
            "file", f"its first line has to name {', '.join(REQUIRED)}, and if need be feb29"
        )


def _is_fresh(line: Line, seen: dict[str, int], summary: Summary, refuse: Refuse) -> bool:
    problem = line.problem
    if problem is None and (first := seen.setdefault(line.id, line.number)) != line.number:
        problem = f"says the same as line {first}"
    if problem is not None:
        summary.refused += 1
        refuse(line.number, problem)
    return problem is None


def _reasons(refused: Refused) -> str:
    return "; ".join(f"{each.field} {each.reason}" for each in refused.problems)
