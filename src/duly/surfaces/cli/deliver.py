"""`duly deliver`: hand over one delivery."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from duly.domain.delivery import DEFAULT_PRIORITY
from duly.domain.durations import duration
from duly.surfaces.cli.deliveries import record
from duly.surfaces.cli.options import COMMON, Common, client
from duly.surfaces.cli.render import answer, talk
from duly.surfaces.cli.times import moment

STDIN = "-"
Payload = Annotated[str | None, Parameter(allow_leading_hyphen=True)]
At = Annotated[str | None, Parameter(help="When it is due, as in 2026-11-16T09:00+01:00.")]
After = Annotated[str | None, Parameter(help="How long from now it is due, as in 90s or 1h30m.")]
Key = Annotated[str | None, Parameter(help="The same key gives the same delivery again.")]
Priority = Annotated[int, Parameter(help="9 goes first, 1 last.")]
ExpiresAt = Annotated[str | None, Parameter(help="When it is no longer worth delivering.")]
Tags = Annotated[
    tuple[str, ...],
    Parameter(
        name="--tag",
        negative=(),
        show_default=False,
        help="A word to find it by; may be given several times.",
    ),
]


@Parameter(name="*")
@dataclass(frozen=True)
class Terms:
    """When and how it is to be delivered."""

    at: At = None
    after: After = None
    key: Key = None
    priority: Priority = DEFAULT_PRIORITY
    expires_at: ExpiresAt = None
    tags: Tags = ()

    def arguments(self) -> dict[str, Any]:
        """The terms as `App.deliver` takes them."""
        return {
            "at": None if self.at is None else moment("at", self.at),
            "after": None if self.after is None else duration("after", self.after),
            "key": self.key,
            "priority": self.priority,
            "expires_at": None
            if self.expires_at is None
            else moment("expires_at", self.expires_at),
            "tags": self.tags,
        }


TERMS = Terms()


async def deliver(
    target: str,
    payload: Payload = None,
    /,
    *,
    terms: Terms = TERMS,
    common: Common = COMMON,
) -> None:
    """Hand over one delivery and print its id.

    Parameters
    ----------
    target
        The handler that it is for.
    payload
        JSON, passed on as it is; - reads it from stdin.
    """
    arguments = terms.arguments()
    content = None if payload is None else content_of(payload)
    async with client(common, create=True) as app:
        accepted = await app.deliver(target, content, **arguments)
        document = record(await app.get(accepted.id)) if common.json else None
    if accepted.known:
        talk(f"key {terms.key!r} was known; nothing new was stored")
    answer(common.json, document, lambda: accepted.id)


def content_of(payload: str) -> bytes:
    """The bytes of a payload that was given as an argument, or comes from stdin."""
    return sys.stdin.buffer.read() if payload == STDIN else os.fsencode(payload)
