"""`duly deliver`: hand over one delivery."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

from cyclopts import Parameter

from duly.domain.delivery import DEFAULT_PRIORITY
from duly.surfaces.cli.deliveries import record
from duly.surfaces.cli.options import COMMON, Common, client
from duly.surfaces.cli.render import answer, talk
from duly.surfaces.cli.times import duration, moment

STDIN = "-"


async def deliver(
    target: str,
    payload: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    at: str | None = None,
    after: str | None = None,
    key: str | None = None,
    priority: int = DEFAULT_PRIORITY,
    expires_at: str | None = None,
    tag: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    common: Common = COMMON,
) -> None:
    """Hand over one delivery and print its id.

    Parameters
    ----------
    target
        The handler that it is for.
    payload
        JSON, passed on as it is; - reads it from stdin.
    at
        When it is due, as in 2026-11-16T09:00+01:00.
    after
        How long from now it is due, as in 90s or 1h30m.
    key
        The same key gives the same delivery again.
    priority
        9 goes first, 1 last.
    expires_at
        When it is no longer worth delivering.
    tag
        A word to find it by; may be given several times.
    """
    moments: dict[str, Any] = {
        "at": None if at is None else moment("at", at),
        "after": None if after is None else duration("after", after),
        "expires_at": None if expires_at is None else moment("expires_at", expires_at),
    }
    content = None if payload is None else _bytes(payload)
    async with client(common, create=True) as app:
        accepted = await app.deliver(
            target, content, key=key, priority=priority, tags=tag, **moments
        )
        if accepted.known:
            talk(f"key {key!r} was known; nothing new was stored")
        document = record(await app.get(accepted.id)) if common.json else None
    answer(common.json, document, lambda: accepted.id)


def _bytes(payload: str) -> bytes:
    return sys.stdin.buffer.read() if payload == STDIN else os.fsencode(payload)
