"""Maps errors to exit codes.

0 ok, 1 failed at run time, 2 bad usage or configuration, 3 not found, 4 no store or no server was
reached, 5 conflict.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from duly.errors import (
    Conflict,
    DulyError,
    InvalidInput,
    NotFound,
    SchemaMismatch,
    StoreIsOwned,
    StoreUnavailable,
)
from duly.safe_text import visible

FAILED = 1
BAD_USAGE = 2
CODES: tuple[tuple[type[DulyError], int], ...] = (
    (StoreIsOwned, FAILED),
    (SchemaMismatch, FAILED),
    (InvalidInput, BAD_USAGE),
    (NotFound, 3),
    (StoreUnavailable, 4),
    (Conflict, 5),
)
"""The first match applies, so subclasses come first."""


def exit_code(error: DulyError) -> int:
    """The exit code for an error."""
    return next((code for kind, code in CODES if isinstance(error, kind)), FAILED)


def run_command(run: Callable[[], int]) -> int:
    """The exit code of a command; an error of duly is printed as one line."""
    try:
        return run()
    except DulyError as error:
        print(f"error: {visible(str(error))}", file=sys.stderr)
        return exit_code(error)
