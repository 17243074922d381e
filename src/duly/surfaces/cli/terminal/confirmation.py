"""Asking before something is done that cannot be taken back."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from duly.errors import InvalidInput
from duly.safe_text import visible

Yes = Annotated[bool, Parameter(negative=(), help="Do not ask.")]


def agreed(question: str, instead: str = "--yes") -> bool:
    """Whether whoever is there says yes; where nobody is, `instead` says which flags do."""
    print(f"{visible(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    reply = sys.stdin.readline()
    if not reply:
        raise InvalidInput("yes", f"nobody is there to ask; give {instead}")
    return reply.strip().lower() in ("y", "yes")
