"""All tools: none deletes, none shows a secret, and no result is larger than its limit."""

import ast
import inspect
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

import duly
from duly import App, resources
from duly.errors import BadSetting
from duly.surfaces import mcp as tools_folder
from duly.surfaces.http.application import _mcp_routes
from duly.surfaces.mcp.acting import ACTING, MOST_RETRIED
from duly.surfaces.mcp.looking import LOOKING
from duly.surfaces.mcp.results import MOST_BYTES
from duly.surfaces.mcp.server import TOOLS, tool_server
from tests.surfaces.mcp.clients import Caller, readable_failures
from tests.surfaces.processes import DEADLINE_SECONDS, DULY, Home, environment
from tests.surfaces.sample_data import HOOK
from tests.surfaces.terminal.test_foreign_text import HOSTILE, escapes

pytestmark = pytest.mark.requirement("L7")
ENDING = ("remove", "discard", "cancel", "revoke", "dead_letter_head", "rotate", "edit", "drain")
"""Parts of the names of methods that delete, discard, cancel or overwrite something."""
RESOURCES = ("deliveries", "schedules", "endpoints", "streams", "dead_letters", "stats")


def ending_methods() -> set[str]:
    """The methods of all resources that end something."""
    kinds = [each for _, each in inspect.getmembers(resources, inspect.isclass)]
    names = {name for kind in kinds for name in vars(kind)}
    return {name for name in names if any(part in name for part in ENDING)}


class Recording:
    """An App, or one of its resources, that notes which methods are called."""

    def __init__(self, real: Any, called: set[str]) -> None:
        self._real, self._called = real, called

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name in RESOURCES:
            return Recording(found, self._called)
        self._called.add(name)
        return found


async def filled(app: App) -> dict[str, dict[str, Any]]:
    """Fill the store with secrets in all places; returns arguments for every tool."""
    app.expect("log")
    header = {"X-Api-Key": "hush-header"}
    await app.endpoints.add("hook", f"{HOOK}?token=hush-query", headers=header)
    hooked = duly.webhook(f"{HOOK}?token=hush-query", headers=header)
    await app.schedule("daily", duly.cron("0 9 * * *"), hooked, {"card": "hush-payload"})
    await app.deliver(hooked, {"card": "hush-payload"}, after=86400)
    id = (await app.deliver("log", {"card": "hush-payload"}, stream="line", tags=["red"])).id
    await app.streams.dead_letter_head("line")
    await app.keys.create("ops")
    one: dict[str, Any] = {"id": id}
    return {
        **{name: {} for name in TOOLS},
        **dict.fromkeys(("show_delivery", "explain_delivery", "retry_dead_letter"), one),
        "retry_dead_letters": {"tag": "red"},
        "explain_rule": {"expression": "@daily"},
        **{name: {"name": "daily"} for name in TOOLS if name.endswith("_schedule")},
        **{name: {"name": "hook"} for name in TOOLS if name.endswith("_endpoint")},
        **{name: {"name": "line"} for name in TOOLS if name.endswith("_stream")},
    }


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncIterator[App]:
    app = App(url, egress_allow="127.0.0.1", environment={}, **settings)
    async with app:
        yield app


@asynccontextmanager
async def calling(app: Any) -> AsyncIterator[Caller]:
    """A client in this process that may use all tools."""
    with readable_failures():
        async with Client(tool_server(app, None)) as client:
            yield Caller(client)


async def test_no_tool_deletes_or_discards(sqlite_url: str) -> None:
    called: set[str] = set()
    async with opened(sqlite_url) as app:
        arguments = await filled(app)
        async with calling(Recording(app, called)) as mcp:
            for name, given in arguments.items():
                await mcp.ok(name, **given)
    assert {"retry", "retry_all", "trigger", "pause", "resume", "detail", "page"} <= called
    assert called & ending_methods() == set()


def test_the_code_of_the_tools_names_no_method_that_ends_something() -> None:
    forbidden = ending_methods()
    assert {"remove", "discard", "discard_all", "cancel_all", "remove_orphans"} <= forbidden
    folder = Path(tools_folder.__file__).parent
    named = {
        node.attr
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert "retry_all" in named
    assert named & forbidden == set()


async def test_no_tool_shows_a_secret_or_a_payload_that_was_not_asked_for(sqlite_url: str) -> None:
    async with opened(sqlite_url) as app:
        arguments = await filled(app)
        secret = (await app.endpoints.rotate("hook")).secret
        held = await app.deliver(duly.endpoint("hook"), 1, after=86400)
        async with calling(app) as mcp:
            for name, given in arguments.items():
                _, text = await mcp.text(name, **given)
                assert "hush" not in text, name
                assert secret not in text, name
                assert "whsec_" not in text, name
                assert "duly_" not in text, name
            _, text = await mcp.text("explain_delivery", id=held.id)
            assert "token=…" in text
            assert "hush" not in text
            shown = await mcp.ok("show_delivery", **arguments["show_delivery"], payload=True)
            assert shown["payload"] == {"card": "hush-payload"}
            shown = await mcp.ok("show_schedule", name="daily", payload=True)
            assert shown["schedule"]["payload"] == {"card": "hush-payload"}
            assert "hush-header" not in json.dumps(shown)
            assert "hush-query" not in json.dumps(shown)


@pytest.mark.requirement("X5")
async def test_texts_of_others_cannot_control_a_terminal(sqlite_url: str) -> None:
    async with opened(sqlite_url) as app:
        app.expect("log")
        id = (await app.deliver("log", {"said": HOSTILE}, stream="line")).id
        await app.streams.pause("line", "a reason")
        async with calling(app) as mcp:
            texts = [
                (await mcp.text("show_delivery", id=id, payload=True))[1],
                (await mcp.text("show_stream", name=HOSTILE))[1],
                (await mcp.text(HOSTILE))[1],
            ]
    assert [escapes(each) for each in texts] == [set()] * 3
    assert json.loads(texts[0])["payload"] == {"said": HOSTILE}


async def test_a_result_that_is_too_large_says_how_to_get_less(sqlite_url: str) -> None:
    async with opened(sqlite_url) as app:
        app.expect("log")
        id = (await app.deliver("log", "x" * MOST_BYTES)).id
        async with calling(app) as mcp:
            refused = await mcp.error("show_delivery", id=id, payload=True)
            assert refused.startswith("result: it has 10")
            assert "without payload" in refused
            assert (await mcp.ok("show_delivery", id=id))["id"] == id


async def test_a_filter_that_matches_too_many_dead_letters_retries_none(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.surfaces.mcp.acting.MOST_RETRIED", 0)
    async with opened(sqlite_url) as app:
        arguments = await filled(app)
        async with calling(app) as mcp:
            refused = await mcp.error("retry_dead_letters", tag="red")
        assert refused == "arguments: 1 dead letters match, and 0 may; narrow the filter"
        assert (await app.get(arguments["show_delivery"]["id"])).state == "dead"
    assert str(MOST_RETRIED) in TOOLS["retry_dead_letters"].description


async def test_an_unexpected_error_is_logged_and_its_details_are_not_sent(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        @property
        def stats(self) -> Any:
            raise RuntimeError("the password is swordfish")

    async with calling(Broken()) as mcp:
        assert await mcp.error("status") == "internal error; see the log"
    assert "the tool status failed" in caplog.text


def test_tools_say_whether_they_act_and_describe_their_arguments() -> None:
    assert [each.name for each in (*LOOKING, *ACTING)] == list(TOOLS)
    for tool in TOOLS.values():
        assert tool.acts == (tool in ACTING)
        assert tool.schema["type"] == "object"
        assert tool.schema["additionalProperties"] is False
        assert tool.description.endswith(".")
        assert len(tool.description) < 300
        if "limit" in tool.schema["properties"]:
            assert tool.schema["properties"]["limit"]["maximum"] <= 100


def test_the_page_names_every_tool_and_its_configurations_are_json() -> None:
    page = (Path(__file__).parents[3] / "docs" / "mcp.md").read_text()
    assert [name for name in TOOLS if f"`{name}`" not in page] == []
    blocks = [json.loads(each) for each in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    assert len([each for each in blocks if "mcpServers" in each]) == 3
    assert f"{MOST_RETRIED}" in page
    assert f"{MOST_BYTES:,}" in page


def test_without_the_extra_the_command_says_how_to_install_it(
    sqlite_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    done = sqlite_home.duly("mcp")
    message = "mcp: it needs the package mcp: pip install 'duly[mcp]'"
    assert (done.returncode, done.stderr) == (2, f"error: {message}\n")
    with pytest.raises(BadSetting, match="pip install"):
        _mcp_routes(App(sqlite_home.database, mcp=True, environment={}))
    assert _mcp_routes(App(sqlite_home.database, environment={})) == []


def test_commands_do_not_import_the_package() -> None:
    program = (
        "import sys, duly.surfaces.cli.mcp, duly.surfaces.http.application;"
        "print(*({'mcp', 'pydantic'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_while_it_waits_for_its_client(
    tmp_path: Path, sqlite_url: str, number: int
) -> None:
    greeting = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting}
    with subprocess.Popen(
        [*DULY, "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment({"DULY_DATABASE": sqlite_url}),
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps(message), file=process.stdin, flush=True)
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "duly"
        process.send_signal(number)
        assert process.wait(DEADLINE_SECONDS) == 0
