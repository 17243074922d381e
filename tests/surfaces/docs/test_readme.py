"""The commands of the tour, of the README and of the docs, run in bash."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.postgres import free_port
from tests.surfaces.docs.terminal import Terminal
from tests.surfaces.processes import Home

ROOT = Path(__file__).parents[3]
TOUR = ROOT / "docs" / "tour.md"
SERVER, RECEIVER = "8787", "9000"
"""The ports in the docs."""
MISSING = [each for each in ("bash", "curl", "make") if shutil.which(each) is None]

pytestmark = pytest.mark.skipif(
    bool(MISSING) and "CI" not in os.environ, reason=f"not installed: {MISSING}"
)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder that looks to make like a clone with everything installed."""
    folder = tmp_path / "clone"
    duly = folder / ".venv/bin/duly"
    duly.parent.mkdir(parents=True)
    duly.write_text(f'#!/bin/sh\nexec {sys.executable} -m duly "$@"\n')
    duly.chmod(0o755)
    for each in ("Makefile", "pyproject.toml"):
        shutil.copyfile(ROOT / each, folder / each)
    (folder / ".venv/.served-with-python3").touch()
    # Without a terminal curl prints its progress, and by default HTTP errors are no failure.
    (folder / ".curlrc").write_text("silent\nshow-error\nfail\n")
    return folder


def section(name: str) -> str:
    """A section of the tour."""
    tour = TOUR.read_text()
    (text,) = re.findall(rf"^## {name}\n(.*?)^## ", tour, re.DOTALL | re.MULTILINE)
    return str(text)


def blocks(text: str, ports: dict[str, int]) -> list[str]:
    """The shell blocks of a text, with free ports."""
    for written, free in ports.items():
        text = re.sub(rf"(:|--port ){written}\b", rf"\g<1>{free}", text)
    return re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(block: str) -> list[str]:
    return re.split(r"(?<!\\)\n", block.strip())


def run_until(terminal: Terminal, command: str, condition: Callable[[Any], bool]) -> Any:
    """Repeat a command until the condition holds for its document; returns the document."""
    while not condition(found := json.loads(terminal.run(command))):
        pass
    return found


@pytest.mark.requirement("S1", "S6", "C10")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_five_minutes_lead_to_a_delivered_webhook_and_a_paused_schedule(
    request: pytest.FixtureRequest, clone: Path, store: str
) -> None:
    ports = {SERVER: free_port(), RECEIVER: free_port()}
    settings = {"DULY_PORT": str(ports[SERVER])}
    if store == "postgres":
        settings["DULY_DATABASE"] = request.getfixturevalue("empty_postgres_url")
    serve, listen, by_command, by_curl = blocks(section("Five minutes"), ports)
    with (
        Terminal(clone, settings) as first,
        Terminal(clone, settings) as receiver,
        Terminal(clone, settings) as third,
    ):
        first.type(serve)
        first.line_with("duly serve")
        receiver.type(listen)
        assert "checks signatures" in receiver.line_with("listens on")
        assert f"http://127.0.0.1:{ports[SERVER]}" in first.line_with("listens on")
        with_commands(third, receiver, by_command)
        with_curl(third, receiver, by_curl)
    assert (clone / "duly.db").exists() == (store == "sqlite")


def with_commands(terminal: Terminal, receiver: Terminal, block: str) -> None:
    path, send, add, pause, show = commands(block)
    terminal.run(path)
    output = terminal.run(send)
    assert re.search(r"attempt 1: status 200 .*; completed$", output, re.MULTILINE)
    id = re.findall(r"^(\S+) completed$", output, re.MULTILINE)[0]
    assert re.search(rf"POST /  {id}  attempt 1  verified  answered 200", receiver.line_with(id))
    receiver.line_with('"hello": "world"')
    assert "every second" in terminal.run(add)
    receiver.line_with('"schedule": "tick"')
    assert "tick paused" in terminal.run(pause)
    shown = terminal.run(show)
    assert re.search(r"^state +paused$", shown, re.MULTILINE)
    assert re.search(r"^pause_reason +seen enough$", shown, re.MULTILINE)
    assert not re.search(r"^next ", shown, re.MULTILINE)


def with_curl(terminal: Terminal, receiver: Terminal, block: str) -> None:
    deliver, latest, put, pause, get = commands(block)
    id = json.loads(terminal.run(deliver))["id"]
    assert f"{id}  attempt 1  verified  answered 200" in receiver.line_with(id)
    receiver.line_with('"hello": "curl"')
    page = run_until(terminal, latest, lambda found: found["items"][0]["state"] == "completed")
    assert page["items"][0]["id"] == id
    assert json.loads(terminal.run(put))["change"] == "created"
    receiver.line_with('"schedule": "tock"')
    assert json.loads(terminal.run(pause))["state"] == "paused"
    found = json.loads(terminal.run(get))
    assert (found["state"], found["next_at"]) == ("paused", None)
    assert_only_tock_runs(terminal, get)


def assert_only_tock_runs(terminal: Terminal, get: str) -> None:
    """`tick` has no delivery that was due after its pause, and `tock` has one."""
    paused_at = json.loads(terminal.run(get.replace("tock", "tick")))["paused_at"]
    pages = {
        name: terminal.run(get.replace("/schedules/tock", f"/deliveries?schedule={name}"))
        for name in ("tick", "tock")
    }
    due = {name: due_moments(printed) for name, printed in pages.items()}
    assert max(due["tick"]) <= datetime.fromisoformat(paused_at) < max(due["tock"])


def due_moments(page: str) -> list[datetime]:
    return [datetime.fromisoformat(each["scheduled_for"]) for each in json.loads(page)["items"]]


@pytest.mark.requirement("S2")
def test_every_curl_in_the_docs_succeeds(clone: Path) -> None:
    home = Home(clone, f"sqlite:///{clone}/duly.db")
    path = {"PATH": f"{clone}/.venv/bin:{os.environ['PATH']}"}
    with home.serving("duly_birthday:app") as server, Terminal(clone, path) as terminal:
        port = int(server.url.rpartition(":")[2])
        found = [
            block
            for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
            if page != TOUR
            for block in blocks(page.read_text(), {SERVER: port})
            if "curl" in block
        ]
        assert len(found) >= 4
        for block in found:
            for command in commands(block):
                terminal.run(command)
