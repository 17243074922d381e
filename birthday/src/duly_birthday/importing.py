"""Imports users from a CSV file in batches, each in one transaction.

The id of a user is derived from the line, so an interrupted import can be repeated from the
beginning without registering a user twice.
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
    """The lines of one transaction, and whether a pause of the same length follows."""

    lines: int
    rests: bool


PACE: dict[Dialect, Pace] = {
    "postgres": Pace(100, rests=False),
    # A file has one writer, and those that wait for it poll.
    "sqlite": Pace(50, rests=True),
}
"""Chosen so that concurrent requests wait only briefly."""
LINES = UUID("6f1d6a3e-4b1c-4f0e-9a53-0d9b1c7e2f11")
"""The UUID namespace of the ids of imported users; any constant is fine."""


class Line(msgspec.Struct, frozen=True):
    """One line of the file by column names, or its `problem`."""

    number: int
    given: dict[str, str]
    problem: str | None = None

    @property
    def id(self) -> str:
        """The id, the same for equal lines."""
        text = "\x1f".join(self.given.get(name, "") for name in NAMES)
        # Bytes that are not text are surrogates here, and are refused later.
        return str(uuid5(LINES, text.encode(errors="backslashreplace").decode()))


class Summary(msgspec.Struct):
    """The result of a file so far."""

    lines: int = 0
    created: int = 0
    known: int = 0
    refused: int = 0


Refuse = Callable[[int, str], None]
"""Called with each refused line and the reason."""


async def import_people(
    birthdays: Birthdays, file: TextIO, refuse: Refuse, progress: Callable[[Summary], None]
) -> Summary:
    """Register the users of all valid lines; `progress` is called after each batch."""
    summary, seen = Summary(), dict[str, int]()
    lines, pace = _read(file), PACE[birthdays.dialect]
    while batch := list(islice(lines, pace.lines)):
        began = birthdays.clock.monotonic()
        valid = [each for each in batch if _is_valid(each, seen, summary, refuse)]
        result = await birthdays.register_many(
            [each.given for each in valid], [each.id for each in valid]
        )
        for refused in result.refused:
            refuse(valid[refused.index].number, _reasons(refused))
        summary.lines += len(batch)
        summary.created += len(result.created)
        summary.known += result.known
        summary.refused += len(result.refused)
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
            "file", f"its first line has to name {', '.join(REQUIRED)}, and optionally feb29"
        )


def _is_valid(line: Line, seen: dict[str, int], summary: Summary, refuse: Refuse) -> bool:
    problem = line.problem
    if problem is None and (first := seen.setdefault(line.id, line.number)) != line.number:
        problem = f"is equal to line {first}"
    if problem is not None:
        summary.refused += 1
        refuse(line.number, problem)
    return problem is None


def _reasons(refused: Refused) -> str:
    return "; ".join(f"{each.field} {each.reason}" for each in refused.problems)
