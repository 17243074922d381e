"""`duly deliver`: hand over one delivery."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duly.records.delivery import Accepted
from duly.records.target import Target
from duly.surfaces.cli.terminal.delivery_options import TERMS, Payload, Terms, content_of, target_of
from duly.surfaces.cli.terminal.flags import COMMON, Books, Common, books
from duly.surfaces.cli.terminal.output import answer, talk


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
        The handler that it is for, a URL, or endpoint:NAME.
    payload
        JSON, passed on as it is; @file reads it from there, - from stdin.
    """
    arguments, content = terms.arguments(), content_of(payload)
    async with books(common, create=True) as app:
        accepted = await hand_over(app, target_of(target), content, arguments)
    answer(common.json, accepted, lambda: accepted.id)


async def hand_over(
    app: Books, target: Target, content: bytes | None, arguments: Mapping[str, Any]
) -> Accepted:
    """Have it accepted, and say so if its key was known."""
    accepted = await app.deliver(target, content, **arguments)
    if accepted.known:
        talk(f"key {arguments['key']!r} was known; nothing new was stored")
    return accepted
