"""`POST /mcp`: tools for Model Context Protocol clients, with the rights of the caller's key."""

from __future__ import annotations

from dataclasses import replace

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from duly.records.key import Scope
from duly.services.namespace import Namespace
from duly.surfaces.http.protocol.request import Caller, Request
from duly.surfaces.http.protocol.responses import ASGIApp, Receive, Send
from duly.surfaces.http.protocol.responses import Scope as ASGIScope
from duly.surfaces.http.protocol.routing import Route, post
from duly.surfaces.mcp.server import tool_server

MOST_BYTES = 65_536
"""The size of a request: arguments are short, and it is decoded in one go."""
NEEDED = "this needs a key with scope operate"


@post("/mcp", scope=Scope.READ)
async def call(app: Namespace, request: Request) -> ASGIApp:
    """Answer one message; there are no sessions, so any process can answer the next."""
    assert request.caller is not None
    server = tool_server(app, _refusal(request.caller))

    async def answer(scope: ASGIScope, receive: Receive, send: Send) -> None:
        manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=MOST_BYTES
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    return answer


def _refusal(caller: Caller) -> str | None:
    """Why the caller may not act, if so; being on this machine is not enough."""
    if caller.key is None:
        return f"{NEEDED}; give one, as in Authorization: Bearer duly_..."
    if not caller.scope.allows(Scope.OPERATE):
        return f"{NEEDED}; the one given has {caller.scope}"
    return None


MCP: Route = replace(call, is_strict=True)
