"""Asks for confirmation before an operation that cannot be undone."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from duly.errors import InvalidInput
from duly.safe_text import visible

Yes = Annotated[bool, Parameter(negative=(), help="Do not ask.")]


def confirmed(question: str, instead: str = "--yes") -> bool:
    """Whether the user answers yes; without input, the error names the flags in `instead`."""
    print(f"{visible(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    reply = sys.stdin.readline()
    if not reply:
        raise InvalidInput("yes", f"there is no terminal to ask for confirmation; give {instead}")
    return reply.strip().lower() in ("y", "yes")
