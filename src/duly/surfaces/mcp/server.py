"""The tools as a server of the package `mcp`, which is an extra; import this only to use it."""

from __future__ import annotations

import logging
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server

from duly.errors import DulyError, NotFound
from duly.safe_text import visible
from duly.surfaces.mcp.acting import ACTING
from duly.surfaces.mcp.looking import LOOKING
from duly.surfaces.mcp.results import text_of
from duly.surfaces.mcp.tool import Backend, Tool
from duly.version import __version__

logger = logging.getLogger("duly.mcp")
INSTRUCTIONS = (
    "duly delivers what is due: schedules create deliveries, which go to handlers and webhook "
    "endpoints. Begin with `status`. A dead letter is a delivery that is not tried again by "
    "itself. Times are in UTC."
)
TOOLS = {each.name: each for each in (*LOOKING, *ACTING)}
Context = ServerRequestContext[Any, Any]


def tool_server(backend: Backend, refusal: str | None) -> Server[Any]:
    """A server of the tools; with a `refusal` those that act are hidden, and answer with it."""

    async def list_tools(
        _context: Context, _given: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        offered = LOOKING if refusal is not None else TOOLS.values()
        return types.ListToolsResult(tools=[_described(each) for each in offered])

    async def call_tool(
        _context: Context, given: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            return _result(await _called(backend, refusal, given))
        except DulyError as error:
            return _result(visible(str(error)), is_error=True)
        except Exception as error:
            logger.error("the tool %s failed", given.name, exc_info=error)
            return _result("internal error; see the log", is_error=True)

    return Server(
        "duly",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _called(backend: Backend, refusal: str | None, given: types.CallToolRequestParams) -> str:
    tool = TOOLS.get(given.name)
    if tool is None:
        raise NotFound("tool", given.name)
    if tool.acts and refusal is not None:
        raise DulyError(refusal)
    return text_of(await tool.call(backend, given.arguments or {}))


def _described(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=not tool.acts, destructive_hint=False, open_world_hint=False
    )
    return types.Tool(
        name=tool.name, description=tool.description, input_schema=tool.schema, annotations=hints
    )


def _result(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)
