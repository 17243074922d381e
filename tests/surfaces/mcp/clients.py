"""Clients of the tools: `duly mcp` as a process, or /mcp of a server, both with the mcp package."""

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.surfaces.processes import environment

MODES = ("legacy", "auto")
"""With a handshake at first, as most clients do, and without one."""


@asynccontextmanager
async def over_stdio(
    *arguments: str, mode: str = "legacy", **environ: str
) -> AsyncIterator["Caller"]:
    """A client that starts `duly mcp`."""
    started = StdioServerParameters(
        command=sys.executable, args=["-m", "duly", "mcp", *arguments], env=environment(environ)
    )
    with readable_failures():
        async with Client(started, mode=mode) as client:
            yield Caller(client)


@asynccontextmanager
async def over_http(url: str, key: str = "", *, mode: str = "legacy") -> AsyncIterator["Caller"]:
    """A client of a server."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    with readable_failures():
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                yield Caller(client)


@contextmanager
def readable_failures() -> Iterator[None]:
    """The failure of a test itself: the client's task groups wrap it several times."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


class Caller:
    """Calls tools and decodes their results."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def tools(self) -> dict[str, Any]:
        """The tools that are offered, by name."""
        return {each.name: each for each in (await self.client.list_tools()).tools}

    async def text(self, tool: str, **given: Any) -> tuple[bool, str]:
        """Whether the tool succeeded, and its text."""
        result: Any = await self.client.call_tool(tool, given)
        (content,) = result.content
        return not result.is_error, content.text

    async def ok(self, tool: str, **given: Any) -> Any:
        """The document of a tool that has to succeed."""
        succeeded, text = await self.text(tool, **given)
        assert succeeded, text
        return json.loads(text)

    async def error(self, tool: str, **given: Any) -> str:
        """The message of a tool that has to fail."""
        succeeded, text = await self.text(tool, **given)
        assert not succeeded, text
        return text
