"""`duly endpoints test`: send a test request at once, and show the answer."""

from __future__ import annotations

import msgspec

from duly.records.endpoint import Endpoint, EndpointTest
from duly.surfaces.cli.endpoints.describe import next_commands
from duly.surfaces.cli.terminal.delivery_options import Payload, content_of
from duly.surfaces.cli.terminal.exit_codes import FAILED
from duly.surfaces.cli.terminal.flags import COMMON, Common, backend
from duly.surfaces.cli.terminal.output import answer, facts, print_message


async def try_out(name: str, /, *, data: Payload = None, common: Common = COMMON) -> int:
    """Send a test request to an endpoint at once, in any state; exit 1 if it failed.

    It is signed like any delivery, and nothing is stored.

    Parameters
    ----------
    data
        JSON, sent unchanged; @file reads it from a file, - from stdin. Default: a test message.
    """
    content = content_of(data)
    async with backend(common) as app:
        endpoint = await app.endpoints.get(name)
        found = await app.endpoints.test(name, content)
    answer(common.json, found, lambda: _described(found))
    if found.ok:
        _print_next_command(endpoint)
    return 0 if found.ok else FAILED


def _described(found: EndpointTest) -> str:
    timing = [f"{part} {milliseconds:.0f} ms" for part, milliseconds in found.timing.items()]
    shown = {"timing": timing, "truncated": found.truncated or None}
    return facts(msgspec.structs.asdict(found) | shown)


def _print_next_command(endpoint: Endpoint) -> None:
    commands = next_commands(endpoint)
    if commands:
        print_message(f"its deliveries still wait; to send them: {commands[-1]}")
