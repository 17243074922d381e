"""`duly endpoints test`: send something there at once, and see what comes back."""

from __future__ import annotations

from typing import Any

from duly.domain.endpoints.endpoint import StoredEndpoint
from duly.surfaces.cli.endpoints.describe import next_commands
from duly.surfaces.cli.terminal.delivery_options import Payload, content_of
from duly.surfaces.cli.terminal.exit_codes import FAILED
from duly.surfaces.cli.terminal.flags import COMMON, Common, books
from duly.surfaces.cli.terminal.output import answer, facts, talk
from duly.surfaces.standing import tried


async def try_out(name: str, /, *, data: Payload = None, common: Common = COMMON) -> int:
    """Send something to an endpoint at once, whatever its state; exit 1 if it failed.

    It is signed as any delivery, and leaves no trace on the books.

    Parameters
    ----------
    data
        JSON, sent as it is; @file reads it from there, - from stdin. Without it: a test message.
    """
    content = content_of(data)
    async with books(common) as app:
        endpoint = await app.endpoints.get(name)
        outcome = await app.endpoints.test(name, content)
    document = tried(endpoint, outcome)
    answer(common.json, document, lambda: facts(_told(document)))
    if document["ok"]:
        _say_how_to_go_on(endpoint)
    return 0 if document["ok"] else FAILED


def _told(document: dict[str, Any]) -> dict[str, Any]:
    timing = [f"{part} {milliseconds:.0f} ms" for part, milliseconds in document["timing"].items()]
    unless_empty = {name: document[name] or None for name in ("truncated", "note")}
    return document | {"timing": timing, **unless_empty}


def _say_how_to_go_on(endpoint: StoredEndpoint) -> None:
    commands = next_commands(endpoint)
    if commands:
        talk(f"its deliveries still wait; to let them go: {commands[-1]}")
