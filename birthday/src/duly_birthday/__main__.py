"""`python -m duly_birthday`: import users from a file, and update all schedules."""

from __future__ import annotations

import os
import sys
from typing import Annotated, TextIO

import cyclopts
import uvloop
from cyclopts import CycloptsError, Parameter

from duly.errors import DulyError, InvalidInput
from duly.surfaces.cli.terminal.exit_codes import BAD_USAGE, FAILED, exit_code
from duly.surfaces.cli.terminal.output import print_message
from duly_birthday.importing import Summary, import_people
from duly_birthday.service import BirthdayApp
from duly_birthday.wire import Birthdays

NICENESS = 10
"""A server on the same machine has precedence."""
PROGRESS_LINES = 20_000
"""Lines between two messages about the progress."""
Database = Annotated[str | None, Parameter(help="The database.")]
commands = cyclopts.App(name="python -m duly_birthday", help="Users and their birthdays.")


@commands.command(name="import")
def import_(path: str, /, *, database: Database = None) -> int:
    """Register users from a CSV file; those who are registered already are skipped.

    Its first line names the columns: firstName, lastName, dateOfBirth, timezone, optionally feb29.
    Lines that cannot be imported are reported on stderr, and the exit code is 1.
    """
    os.nice(NICENESS)
    try:
        with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            return uvloop.run(_import(file, database))
    except OSError as error:
        raise InvalidInput("file", f"{path} cannot be read: {error.strerror}") from error


@commands.command
def replan(*, database: Database = None) -> int:
    """Update the schedules of all users, after an occasion or a setting has changed."""
    return uvloop.run(_replan(database))


async def _import(file: TextIO, database: str | None) -> int:
    async with BirthdayApp(database) as app:
        birthdays = Birthdays(app, app.manner)
        summary = await import_people(birthdays, file, _print_refused, _print_progress)
    print(
        f"{summary.lines} lines: {summary.created} new, {summary.known} known, "
        f"{summary.refused} refused"
    )
    return FAILED if summary.refused else 0


async def _replan(database: str | None) -> int:
    async with BirthdayApp(database) as app:
        birthdays, after, count = Birthdays(app, app.manner), None, 0
        while users := await birthdays.replan(after):
            after, count = users[-1].id, count + len(users)
    print(f"the schedules of {count} users are up to date")
    return 0


def _print_refused(number: int, reason: str) -> None:
    print_message(f"line {number}: {reason}")


def _print_progress(summary: Summary) -> None:
    if summary.lines % PROGRESS_LINES == 0:
        print_message(f"{summary.lines} lines, {summary.refused} refused")


def main() -> int:
    """Run the command in the arguments."""
    try:
        code: int = commands(
            result_action="return_int_as_exit_code_else_zero",
            exit_on_error=False,
            print_error=False,
        )
    except CycloptsError as error:
        print_message(f"error: {error}")
        return BAD_USAGE
    except DulyError as error:
        print_message(f"error: {error}")
        return exit_code(error)
    return code


if __name__ == "__main__":
    sys.exit(main())
