"""Fingerprints of errors: the same failure of many deliveries has one fingerprint."""

from __future__ import annotations

import re
from hashlib import sha256

LENGTH = 16
UNKNOWN = "unknown"
"""The fingerprint of dead letters older than this feature."""
TAKEN_OUT = "?"

_VARIABLE_PARTS = re.compile(
    r"""
    (?P<kept> \b(?:answered|status|http|code|errno)[\ :=]*\d{1,4}\b)   # a code says what happened
    | (?<!\w)'[^']*'(?!\w) | "[^"]*" | `[^`]*`                         # quoted text
    | \b\w+://\S+                                                      # a URL
    | (?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+                        # a mail address
    | \b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b                             # an IP address, with port
    | \b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b                  # a UUID
    | \b0x[0-9a-f]+\b | \b[0-9a-f]{8,}\b                               # hex
    | \b\d{4}-\d\d-\d\d[T\ ]\d\d:\d\d\S*                               # a moment
    | [-+]?\b\d[\d.,:]*                                                # a number, a duration
    | \b\w*\d\w*\d\w*\b | \b\w+\d\b                                    # a word with digits: an id
    """,
    re.VERBOSE | re.IGNORECASE,
)


def fingerprint(reason: str | None, error: str | None) -> str:
    """The fingerprint, equal for errors that differ only in ids, numbers, addresses and quotes."""
    text = f"{reason or ''}\n{shape(error or '')}"
    return sha256(text.encode(errors="replace")).hexdigest()[:LENGTH]


def shape(error: str) -> str:
    """The first line of an error, with ids, numbers, addresses and quoted text replaced."""
    first = next((line for line in error.splitlines() if line.strip()), "")
    bare = _VARIABLE_PARTS.sub(lambda found: found["kept"] or TAKEN_OUT, first)
    return " ".join(bare.split())
