"""`duly demo` with real processes: what it prints, its exit code, and that it leaves nothing."""

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.support.forks import start
from tests.surfaces.processes import DEADLINE_SECONDS, Home, Running, environment

SHORT = ("demo", "--orders", "48", "--away", "1")
LONG = ("demo", "--orders", "2000", "--away", "1")
"""Its first server sends for more than a second before the demo kills it."""
FORGETFUL = """
import sys
from duly.surfaces.cli.demo.arrivals import Arrivals, item_of
from duly.surfaces.cli.demo.board import Board
from duly.surfaces.cli.main import main

add = Arrivals.add
Arrivals.add = lambda self, got: None if item_of(got.body).name == "47" else add(self, got)
Board.has_all = lambda self: self.arrivals.count >= self.total - 1
main()
"""
"""`duly`, with a receiver that forgets one order."""


def temporary(home: Home) -> dict[str, str]:
    """The variables with which temporary files are made in a folder of the test."""
    folder = home.folder / "temporary"
    folder.mkdir()
    return {"TMPDIR": str(folder)}


def left_behind(home: Home) -> list[Path]:
    return list((home.folder / "temporary").iterdir())


@pytest.mark.requirement("D4", "S1", "U6")
def test_everything_arrives_once_through_a_kill_and_nothing_stays(sqlite_home: Home) -> None:
    done = sqlite_home.process(*SHORT, "--json", environ=temporary(sqlite_home))
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert (found["ok"], found["lost"], found["doubled"]) == (True, 0, 0)
    kinds = {each["kind"]: each for each in found["kinds"]}
    assert kinds["orders"]["accepted"] == kinds["orders"]["arrived"] == 48
    # A third had arrived before the kill, and what was accepted without a server came after it.
    assert 0 < kinds["orders"]["late"] <= 48 - 16
    assert kinds["offline"] == {
        "kind": "offline", "accepted": 20, "arrived": 20, "late": 20, "lost": 0, "doubled": 0
    }  # fmt: skip
    assert kinds["birthdays"]["arrived"] == 5
    assert found["requests"] == found["accepted"] + found["sent_again"]
    assert "kill -9" in done.stderr
    assert "deliveries are due and wait" in done.stderr
    assert left_behind(sqlite_home) == []
    assert not Path(sqlite_home.database.removeprefix("sqlite:///")).exists()


@pytest.mark.long
@pytest.mark.requirement("S6")
def test_a_terminal_gets_a_drawing_and_the_table(sqlite_home: Home) -> None:
    ours, its = pty.openpty()
    env = environment({"TERM": "xterm", "COLUMNS": "100", **temporary(sqlite_home)})
    process = start(
        "duly", *SHORT, stdin=its, stdout=its, stderr=subprocess.DEVNULL,
        cwd=sqlite_home.folder, env=env,
    )  # fmt: skip
    os.close(its)
    seen = read_to_end(ours)
    assert process.wait(DEADLINE_SECONDS) == 0, seen
    assert "duly demo" in seen
    assert "killed" in seen
    assert "0 lost, 0 doubled" in seen


@pytest.mark.long
@pytest.mark.requirement("D4", "S1")
def test_the_exit_code_tells_that_the_receiver_lost_one(sqlite_home: Home) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL, *SHORT, "--json"], capture_output=True, text=True,
        cwd=sqlite_home.folder, env=environment(temporary(sqlite_home)), timeout=DEADLINE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert (found["ok"], found["lost"], found["doubled"]) == (False, 1, 0)
    (orders,) = (each for each in found["kinds"] if each["kind"] == "orders")
    assert (orders["arrived"], orders["lost"]) == (47, 1)
    assert left_behind(sqlite_home) == []


@pytest.mark.requirement("S6")
@pytest.mark.parametrize(
    "numbers",
    [
        (signal.SIGINT,),
        (signal.SIGTERM,),
        (signal.SIGHUP,),
        (signal.SIGINT, signal.SIGINT),
        (signal.SIGHUP, signal.SIGTERM, signal.SIGINT),
    ],
)
def test_signals_end_it_and_leave_nothing_behind(
    sqlite_home: Home, numbers: tuple[int, ...]
) -> None:
    with sqlite_home.running(*LONG, environ=temporary(sqlite_home)) as running:
        server = busy_server(running)
        for number in numbers:
            running.signal(number)
        assert running.end() == 130
    assert not Path(f"/proc/{server}").exists()
    assert left_behind(sqlite_home) == []


@pytest.mark.requirement("S6")
def test_closing_the_terminal_leaves_nothing_behind(sqlite_home: Home) -> None:
    ours, its = pty.openpty()
    env = environment({"TERM": "xterm", "COLUMNS": "100", **temporary(sqlite_home)})
    process = subprocess.Popen(
        [sys.executable, "-m", "duly", *LONG], stdin=its, stdout=its, stderr=its,
        cwd=sqlite_home.folder, env=env, preexec_fn=own_terminal,
    )  # fmt: skip
    os.close(its)
    seen = b""
    while b"on disk" not in seen:
        seen += os.read(ours, 65536)
    server = server_in(seen.decode(errors="replace"))
    os.close(ours)
    process.wait(DEADLINE_SECONDS)
    assert not runs(server)
    assert left_behind(sqlite_home) == []


@pytest.mark.requirement("S6")
def test_its_server_ends_even_if_the_demo_is_killed(sqlite_home: Home) -> None:
    with sqlite_home.running(*LONG, environ=temporary(sqlite_home)) as running:
        server = busy_server(running)
        running.signal(signal.SIGKILL)
        running.end()
        ends = time.monotonic() + DEADLINE_SECONDS
        while runs(server):
            assert time.monotonic() < ends


@pytest.mark.requirement("S6")
@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--orders", "3"), "orders: 3 is not from 24 to 2,000"),
        (("--away", "0"), "away: 0 is not from 1 to 20"),
    ],
)
def test_a_number_out_of_range_is_refused(
    sqlite_home: Home, flags: tuple[str, ...], problem: str
) -> None:
    done = sqlite_home.duly("demo", *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr


def busy_server(running: Running) -> int:
    """The id of the demo's first server, once it has accepted the work."""
    printed = ""
    while "on disk" not in printed:
        printed += running.printed() or "on disk"
    return server_in(printed)


def server_in(printed: str) -> int:
    """The id of the server that the demo printed last."""
    return int(re.findall(r"as process (\d+)", printed)[-1])


def own_terminal() -> None:
    """Make stdin the controlling terminal, whose closing then sends SIGHUP."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def runs(process: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
    return "State:\tZ" not in status


def read_to_end(terminal: int) -> str:
    """Everything that is written to a terminal until its process ends."""
    seen = b""
    try:
        while data := os.read(terminal, 65536):
            seen += data
    except OSError:  # the other end was closed
        pass
    os.close(terminal)
    return seen.decode(errors="replace")
