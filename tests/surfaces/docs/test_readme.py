"""The commands of the README's "Five minutes" and of the docs, run in bash."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.postgres import free_port
from tests.surfaces.processes import DEADLINE_SECONDS, Home, environment

ROOT = Path(__file__).parents[3]
DONE = "-- done:"
SERVER, RECEIVER = "8787", "9000"
"""The ports in the docs."""
MISSING = [each for each in ("bash", "curl", "make") if shutil.which(each) is None]

pytestmark = pytest.mark.skipif(
    bool(MISSING) and "CI" not in os.environ, reason=f"not installed: {MISSING}"
)


class Terminal:
    """A bash in a folder where make has installed duly."""

    def __init__(self, folder: Path, more: dict[str, str]) -> None:
        self._bash = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=clean_environment({"CURL_HOME": str(folder), **more}),
            start_new_session=True,
        )

    def type(self, command: str) -> None:
        """Start a command."""
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{command}\nprintf '\\n{DONE} %d\\n' $?\n")
        self._bash.stdin.flush()

    def run(self, command: str) -> str:
        """Run a command that has to succeed; returns its output."""
        self.type(command)
        *printed, last = self._lines_to(DONE)
        assert last.split() == [*DONE.split(), "0"], (command, printed)
        return "".join(printed)

    def line_with(self, text: str) -> str:
        """Wait for the next line that contains the text."""
        return self._lines_to(text)[-1]

    def _lines_to(self, text: str) -> list[str]:
        assert self._bash.stdout is not None
        lines: list[str] = []
        while not lines or text not in lines[-1]:
            lines.append(self._bash.stdout.readline())
            assert lines[-1], ("it ended", lines)
        return lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """End everything that runs here with Ctrl-C."""
        os.killpg(self._bash.pid, signal.SIGINT)
        try:
            self._bash.communicate(timeout=DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._bash.pid, signal.SIGKILL)
            raise


def clean_environment(more: dict[str, str]) -> dict[str, str]:
    """The environment without variables of the make that runs these tests."""
    ours = environment(more)
    return {name: ours[name] for name in ours if not name.startswith("MAKE") and name != "PYTHON"}


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
    """A section of the README."""
    readme = (ROOT / "README.md").read_text()
    (text,) = re.findall(rf"^## {name}\n(.*?)^## ", readme, re.DOTALL | re.MULTILINE)
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
            for page in sorted((ROOT / "docs").glob("*.md"))
            for block in blocks(page.read_text(), {SERVER: port})
            if "curl" in block
        ]
        assert len(found) >= 4
        for block in found:
            for command in commands(block):
                terminal.run(command)
