"""Every filter of the HTTP API is a flag of the command that shows the same list."""

from __future__ import annotations

from typing import Any

import pytest

from duly import App
from duly.surfaces.cli.command_line import command_line
from duly.surfaces.http.monitoring.health import ProcessHealth
from tests.http.conftest import calling

pytestmark = pytest.mark.requirement("L7")

COMMANDS = {
    "/v1/deliveries": "deliveries list",
    "/v1/deliveries/{id}": "deliveries show",
    "/v1/deliveries/late": "late",
    "/v1/deliveries/stuck": "stuck",
    "/v1/dead-letters": "dead list",
    "/v1/dead-letters/groups": "dead groups",
    "/v1/dead-letters/poison": "dead poison",
    "/v1/recovery/generations": "recovery generations",
    "/v1/schedules": "schedules list",
    "/v1/schedules/{name}/preview": "schedules preview",
    "/v1/orphaned-schedules": "schedules orphans",
    "/v1/calendars": "calendars list",
    "/v1/endpoints": "endpoints list",
    "/v1/limits": "limits list",
    "/v1/limits/{target}/keys": "limits keys",
    "/v1/streams": "streams list",
    "/v1/batches": "batches list",
    "/v1/workers": "workers list",
    "/v1/keys": "keys list",
    "/v1/audit": "audit",
    "/v1/alerts": "alerts list",
    "/v1/stats/failures": "stats",
    "/v1/stats/series": "stats",
    "/v1/stats/outages": "outages",
}
"""The command of each path that takes a query."""
NO_COMMAND = {
    "/v1/deliveries/counts": "the tabs of the dashboard; `deliveries list` shows them",
}
OTHERWISE = {
    ("/v1/alerts", "raised"): "--all",
    ("/v1/stats/failures", "span"): "--since",
    ("/v1/stats/series", "span"): "--since",
    ("/v1/stats/outages", "span"): "--since",
}
"""Flags with another name: `--since` takes a duration too, and `--all` is the opposite."""
PAGES = {"--after", "--before"}


async def parameters(app: App) -> dict[str, set[str]]:
    """The query parameters of every GET that has some."""
    async with calling(app, ProcessHealth(app, app.engine())) as client:
        paths = (await client.get("/docs/openapi.json")).json()["paths"]
    found = {
        path: {
            each["name"] for each in methods["get"].get("parameters", ()) if each["in"] == "query"
        }
        for path, methods in paths.items()
        if path.startswith("/v1/") and "get" in methods
    }
    return {path: names for path, names in found.items() if names}


def flags(words: str) -> set[str]:
    command: Any = command_line(overview=False)
    for word in words.split():
        command = command[word]
    return {name for each in command.assemble_argument_collection() for name in each.names}


def missing(path: str, names: set[str], known: set[str]) -> set[str]:
    """The parameters that are no flag."""
    wanted = {name: OTHERWISE.get((path, name), f"--{name.replace('_', '-')}") for name in names}
    lacking = {name for name, flag in wanted.items() if flag not in known}
    if "cursor" in lacking and known & PAGES:
        lacking.remove("cursor")
    return lacking - {name for name in lacking if len(name) == 1 and f"-{name}" in known}


async def test_every_filter_of_the_api_is_a_flag_of_the_command(sqlite_url: str) -> None:
    async with App(sqlite_url, environment={}) as app:
        found = await parameters(app)
    assert found.keys() == COMMANDS.keys() | NO_COMMAND.keys()
    for path, command in COMMANDS.items():
        assert missing(path, found[path], flags(command)) == set(), (path, command)


def test_a_filter_without_a_flag_is_found() -> None:
    known = flags("deliveries list")
    assert missing("/v1/deliveries", {"late_over", "cursor", "colour"}, known) == {"colour"}
    assert missing("/v1/alerts", {"cursor"}, {"--limit"}) == {"cursor"}


def test_no_exception_is_left_over() -> None:
    for (path, name), flag in OTHERWISE.items():
        known = flags(COMMANDS[path])
        assert flag in known
        assert f"--{name}" not in known
