"""`duly endpoints test`: send something there at once, and see what comes back."""

from __future__ import annotations

from typing import Any

import msgspec

from duly.domain.endpoints import Endpoint
from duly.domain.outcomes import Completed, Failed, Outcome
from duly.surfaces.cli.exits import FAILED
from duly.surfaces.cli.options import COMMON, Common, client
from duly.surfaces.cli.render import answer, facts, talk
from duly.surfaces.cli.standing import next_commands
from duly.surfaces.cli.terms import Payload, content_of

NOTHING_LEFT = "nothing left this machine: it has no route, no sockets, or no resolver"


async def try_out(name: str, /, *, data: Payload = None, common: Common = COMMON) -> int:
    """Send something to an endpoint at once, whatever its state; exit 1 if it failed.

    It is signed as any delivery, and leaves no trace on the books.

    Parameters
    ----------
    data
        JSON, sent as it is; @file reads it from there, - from stdin. Without it: a test message.
    """
    content = content_of(data)
    async with client(common) as app:
        endpoint = await app.endpoints.get(name)
        outcome = await app.endpoints.test(name, content)
    document = _document(endpoint, outcome)
    answer(common.json, document, lambda: facts(_told(document)))
    if document["ok"]:
        _say_how_to_go_on(endpoint)
    return 0 if document["ok"] else FAILED


def _document(endpoint: Endpoint, outcome: Outcome) -> dict[str, Any]:
    found = getattr(outcome, "answer", None)
    exchange: dict[str, Any] = {"status": None, "timing": {}, "excerpt": "", "truncated": False}
    exchange |= msgspec.json.decode(found) if found else {}
    failure: dict[str, Any] = {"reason": None, "error": None}
    if isinstance(outcome, Failed):
        failure = {"reason": outcome.reason, "error": outcome.error}
    elif not isinstance(outcome, Completed):
        failure = {"reason": "not_sent", "error": NOTHING_LEFT}
    ok = isinstance(outcome, Completed)
    return {"name": endpoint.name, "url": endpoint.details.url, "ok": ok, **exchange, **failure}


def _told(document: dict[str, Any]) -> dict[str, Any]:
    timing = [f"{part} {milliseconds:.0f} ms" for part, milliseconds in document["timing"].items()]
    return document | {"timing": timing, "truncated": document["truncated"] or None}


def _say_how_to_go_on(endpoint: Endpoint) -> None:
    commands = next_commands(endpoint)
    if commands:
        talk(f"its deliveries still wait; to let them go: {commands[-1]}")
