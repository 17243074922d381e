"""Every outgoing HTTP call of a server is guarded, and has the mark of a webhook."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "src", ROOT / "birthday" / "src")
CLIENTS = (
    "aiohappyeyeballs",
    "aiohttp",
    "http.client",
    "httptools",
    "httpx",
    "requests",
    "urllib.request",
    "urllib3",
)
ALLOWED = {
    "duly/transports/webhooks/answers.py": "how the answers to webhooks are read",
    "duly/transports/webhooks/connections.py": "every connection of a webhook: guarded",
    "duly/surfaces/http/network/connection.py": "a server, not a client: the HTTP port",
    "duly/client/http1.py": "duly.Client, which calls the server that its user names",
}


@pytest.mark.requirement("X3")
def test_http_clients_are_used_only_where_they_are_guarded() -> None:
    found = {
        str(path.relative_to(source))
        for source in SOURCES
        for path in sorted(source.rglob("*.py"))
        if any(clients_in(path.read_text()))
    }
    assert found == ALLOWED.keys()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import aiohttp", ["aiohttp"]),
        ("from aiohttp.web import Request", ["aiohttp.web"]),
        ("def f():\n    from http import client", ["http.client"]),
        ("from urllib import parse, request", ["urllib.request"]),
        ("from urllib.parse import urlsplit\nimport http", []),
    ],
)
def test_each_way_to_import_a_client_is_reported(text: str, expected: list[str]) -> None:
    assert list(clients_in(text)) == expected


def clients_in(text: str) -> Iterator[str]:
    """The HTTP clients that a file imports."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import():
                names = [each.name for each in node.names]
            case ast.ImportFrom(module=str(module)) if module in ("http", "urllib"):
                names = [f"{module}.{each.name}" for each in node.names]
            case ast.ImportFrom(module=str(module)):
                names = [module]
            case _:
                continue
        yield from (
            name for name in names if f"{name}.".startswith(tuple(f"{c}." for c in CLIENTS))
        )
