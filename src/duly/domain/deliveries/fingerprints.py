"""What like errors have in common: the same failure of many deliveries has one fingerprint."""

from __future__ import annotations

import re
from hashlib import sha256

LENGTH = 16
UNKNOWN = "unknown"
"""Stands for those that died before there were fingerprints."""
TAKEN_OUT = "?"

_PARTICULARS = re.compile(
    r"""
    (?P<kept> \b(?:answered|status|http|code|errno)[\ :=]*\d{1,4}\b)   # a code says what happened
    | (?<!\w)'[^']*'(?!\w) | "[^"]*" | `[^`]*`                         # whatever was quoted
    | \b\w+://\S+                                                      # a URL
    | (?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+                        # a mail address
    | \b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b                             # an address with its port
    | \b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b                  # a UUID
    | \b0x[0-9a-f]+\b | \b[0-9a-f]{8,}\b                               # hex
    | \b\d{4}-\d\d-\d\d[T\ ]\d\d:\d\d\S*                               # a moment
    | [-+]?\b\d[\d.,:]*                                                # a number, a duration
    | \b\w*\d\w*\d\w*\b | \b\w+\d\b                                    # a word with digits: an id
    """,
    re.VERBOSE | re.IGNORECASE,
)


def fingerprint(reason: str | None, error: str | None) -> str:
    """The same for errors that differ only in ids, numbers, addresses and what is quoted."""
    told = f"{reason or ''}\n{shape(error or '')}"
    return sha256(told.encode(errors="replace")).hexdigest()[:LENGTH]


def shape(error: str) -> str:
    """The first line of an error without its particulars."""
    first = next((line for line in error.splitlines() if line.strip()), "")
    bare = _PARTICULARS.sub(lambda found: found["kept"] or TAKEN_OUT, first)
    return " ".join(bare.split())
