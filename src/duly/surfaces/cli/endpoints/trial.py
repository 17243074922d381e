"""`duly endpoints test`: send something there at once, and see what comes back."""

from __future__ import annotations

import msgspec

from duly.records.endpoint import Endpoint, EndpointTest
from duly.surfaces.cli.endpoints.describe import next_commands
from duly.surfaces.cli.terminal.delivery_options import Payload, content_of
from duly.surfaces.cli.terminal.exit_codes import FAILED
from duly.surfaces.cli.terminal.flags import COMMON, Common, books
from duly.surfaces.cli.terminal.output import answer, facts, talk


async def try_out(name: str, /, *, data: Payload = None, common: Common = COMMON) -> int:
    """Send something to an endpoint at once, in any state; exit 1 if it failed.

    It is signed as any delivery is, and nothing is stored.

    Parameters
    ----------
    data
        JSON, sent as it is; @file reads it from there, - from stdin. Without it: a test message.
    """
    content = content_of(data)
    async with books(common) as app:
        endpoint = await app.endpoints.get(name)
        found = await app.endpoints.test(name, content)
    answer(common.json, found, lambda: _described(found))
    if found.ok:
        _say_how_to_go_on(endpoint)
    return 0 if found.ok else FAILED


def _described(found: EndpointTest) -> str:
    timing = [f"{part} {milliseconds:.0f} ms" for part, milliseconds in found.timing.items()]
    shown = {"timing": timing, "truncated": found.truncated or None}
    return facts(msgspec.structs.asdict(found) | shown)


def _say_how_to_go_on(endpoint: Endpoint) -> None:
    commands = next_commands(endpoint)
    if commands:
        talk(f"its deliveries still wait; to let them go: {commands[-1]}")
