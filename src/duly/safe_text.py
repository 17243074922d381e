"""Untrusted text made safe to show: control characters escaped, credentials in URLs hidden."""

from __future__ import annotations

import re

BIDI_CONTROLS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
UNSAFE = f"\x7f-\x9f\u2028\u2029{BIDI_CONTROLS}"
"""Unsafe besides the ASCII control characters: DEL, C1, line separators, bidi controls."""
CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f{UNSAFE}]")
"""Control characters except tab and line feed."""
LINE_CONTROL = re.compile(f"[\x00-\x08\x0a-\x1f{UNSAFE}]")
IN_JSON = re.compile(f"[{UNSAFE}]")
"""Unsafe characters that a JSON encoder does not escape."""
USER = re.compile("(?<=//)[^/?#]*@")
"""Up to the last `@` before the path: a password may contain one."""
QUERY = re.compile(r"\?[^#\s]*")
ELLIPSIS = "…"


def visible(text: str) -> str:
    """Text for a terminal: control characters are escaped, except tab and line feed."""
    return CONTROL.sub(_escaped, text)


def one_line(text: str) -> str:
    """Text for one line of a terminal: line breaks are escaped too."""
    return LINE_CONTROL.sub(_escaped, text)


def safe_json(text: str) -> str:
    """Equivalent JSON in which unsafe characters are escaped."""
    return IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shown_url(url: str) -> str:
    """A URL without possible credentials: user information and query values are hidden."""
    return QUERY.sub(_shown_query, USER.sub(f"{ELLIPSIS}@", url, count=1), count=1)


def _shown_query(found: re.Match[str]) -> str:
    return "?" + "&".join(map(_shown_part, found[0][1:].split("&")))


def _shown_part(part: str) -> str:
    name, equals, value = part.partition("=")
    if not equals:
        return ELLIPSIS if part else ""
    return f"{name}={ELLIPSIS}" if value else part


def _escaped(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]
