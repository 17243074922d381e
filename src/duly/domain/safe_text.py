"""Text that a stranger wrote, made safe to show: nothing in it moves a cursor or hides a secret."""

from __future__ import annotations

import re

BIDI_CONTROLS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
UNSAFE = f"\x7f-\x9f\u2028\u2029{BIDI_CONTROLS}"
"""Besides the ASCII control characters: DEL, C1, line separators, and what reorders text."""
CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f{UNSAFE}]")
"""All but tabs and line breaks."""
LINE_CONTROL = re.compile(f"[\x00-\x08\x0a-\x1f{UNSAFE}]")
IN_JSON = re.compile(f"[{UNSAFE}]")
"""What JSON does not escape by itself."""
USER = re.compile("(?<=//)[^/?#]*@")
"""Up to the last `@` before the path: a password may hold one."""
QUERY = re.compile(r"\?[^#\s]*")
ELLIPSIS = "…"


def visible(text: str) -> str:
    """Text for a terminal: control characters are spelled out, but for tabs and line breaks."""
    return CONTROL.sub(_spelled, text)


def one_line(text: str) -> str:
    """The same, and in one line."""
    return LINE_CONTROL.sub(_spelled, text)


def safe_json(text: str) -> str:
    """JSON in which control characters are escapes; it means the same."""
    return IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shown_url(url: str) -> str:
    """A URL without what may be a credential: a user, and the values of its query."""
    return QUERY.sub(_shown_query, USER.sub(f"{ELLIPSIS}@", url, count=1), count=1)


def _shown_query(found: re.Match[str]) -> str:
    return "?" + "&".join(map(_shown_part, found[0][1:].split("&")))


def _shown_part(part: str) -> str:
    name, equals, value = part.partition("=")
    if not equals:
        return ELLIPSIS if part else ""
    return f"{name}={ELLIPSIS}" if value else part


def _spelled(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]
