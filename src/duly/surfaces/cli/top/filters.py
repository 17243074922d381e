"""The filter that a user types: words, and qualifiers such as `target:mail`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from duly.errors import InvalidInput

QUALIFIERS = ("id", "target", "stream", "tag", "reason", "schedule", "key", "fingerprint")
OF_DELIVERIES = frozenset(QUALIFIERS) - {"fingerprint"}
OF_DEAD_LETTERS = frozenset(QUALIFIERS) - {"id", "key"}


@dataclass(frozen=True)
class Filter:
    """The text, and the values of the qualifiers."""

    text: str | None = None
    fields: dict[str, str] = field(default_factory=dict)

    def keywords(self, allowed: frozenset[str]) -> dict[str, str]:
        """The filter as keyword arguments; InvalidInput for a qualifier that is not allowed."""
        for name in self.fields:
            if name not in allowed:
                known = ", ".join(f"{each}:" for each in QUALIFIERS if each in allowed)
                raise InvalidInput("filter", f"{name}: does not apply here; use {known} or text")
        return self.fields | ({} if self.text is None else {"text": self.text})


def parsed(typed: str) -> Filter:
    """The filter in the text; quotes keep a value with spaces together."""
    words, fields = list[str](), dict[str, str]()
    for each in _split(typed):
        name, colon, value = each.partition(":")
        if colon and value and name in QUALIFIERS:
            fields[name] = value
        else:
            words.append(each)
    return Filter(" ".join(words) or None, fields)


def _split(typed: str) -> list[str]:
    try:
        return shlex.split(typed)
    except ValueError:
        # A quote that is not closed is a part of the text.
        return typed.split()
