"""`duly deliver`: accept one delivery."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duly.records.delivery import Accepted
from duly.records.target import Target
from duly.surfaces.cli.terminal.delivery_options import (
    OPTIONS,
    DeliveryOptions,
    Payload,
    content_of,
    target_of,
)
from duly.surfaces.cli.terminal.flags import COMMON, Backend, Common, backend
from duly.surfaces.cli.terminal.output import answer, print_message


async def deliver(
    target: str,
    payload: Payload = None,
    /,
    *,
    options: DeliveryOptions = OPTIONS,
    common: Common = COMMON,
) -> None:
    """Accept one delivery and print its id.

    Parameters
    ----------
    target
        A handler, a URL, or endpoint:NAME.
    payload
        JSON, stored unchanged; @file reads it from a file, - from stdin.
    """
    arguments, content = options.arguments(), content_of(payload)
    async with backend(common, create=True) as app:
        accepted = await accept(app, target_of(target), content, arguments)
    answer(common.json, accepted, lambda: accepted.id)


async def accept(
    app: Backend, target: Target, content: bytes | None, arguments: Mapping[str, Any]
) -> Accepted:
    """Accept a delivery; a message if its key was known."""
    accepted = await app.deliver(target, content, **arguments)
    if accepted.known:
        print_message(_known(arguments))
    return accepted


def _known(arguments: Mapping[str, Any]) -> str:
    key, policy = arguments["key"], arguments["on_duplicate"]
    if arguments["unique"] is None:
        return f"key {key!r} was known; nothing new was stored"
    changed = {"replace": "its contents were replaced", "postpone": "it was postponed"}
    return f"a delivery with key {key!r} waits; {changed.get(policy, 'nothing new was stored')}"
