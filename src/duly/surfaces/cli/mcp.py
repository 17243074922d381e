"""`duly mcp`: tools for a Model Context Protocol client that starts this command."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from cyclopts import Parameter

from duly.app import App
from duly.signals import listen_for_signals
from duly.surfaces.cli.terminal.flags import Common, Database, Server, backend, server_settings
from duly.surfaces.mcp.extra import require_extra
from duly.system import end_now

ACTOR = "mcp"
"""The actor in the audit trail; through a server it is the key."""
REFUSAL = "this changes something; start `duly mcp` with --operate to allow it"
Operate = Annotated[
    bool, Parameter(negative=(), help="Offer the tools that retry, trigger, pause and resume too.")
]


async def mcp(
    *,
    operate: Operate = False,
    database: Database = None,
    namespace: Annotated[str | None, Parameter(help="The namespace.")] = None,
    server: Server = None,
) -> None:
    """Serve tools to a Model Context Protocol client over stdin and stdout.

    Without --operate they only read. Through a server with a key, the scope of the key decides.
    """
    require_extra()
    # Imported here: an optional dependency.
    from mcp.server.stdio import stdio_server

    from duly.surfaces.mcp.server import tool_server

    common = Common(database, namespace, server)
    refusal = None if operate or _has_key(common) else REFUSAL
    # A thread waits for stdin, and only the end of the process ends that.
    with listen_for_signals(partial(end_now, 0)):
        async with backend(common) as app, stdio_server() as (incoming, outgoing):
            acting = app.acting_as(ACTOR) if isinstance(app, App) else app
            tools = tool_server(acting, refusal)
            await tools.run(incoming, outgoing, tools.create_initialization_options())


def _has_key(common: Common) -> bool:
    settings = server_settings(common)
    return settings is not None and bool(settings.key)
