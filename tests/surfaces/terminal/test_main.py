"""The command line as a whole: start time, output and exit codes."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from duly import errors
from duly.surfaces.cli.command_line import COMMANDS
from duly.surfaces.cli.terminal.exit_codes import exit_code
from duly.version import __version__
from tests.support.forks import start_anew
from tests.support.postgres import free_port
from tests.surfaces.processes import DEADLINE_SECONDS, DULY, Home, environment

HEAVY = {"cyclopts", "rich", "starlette", "uvicorn", "uvloop"}
CLIENTS = [
    ("deliveries", "list"),
    ("schedules", "list"),
    ("status",),
    ("audit",),
    ("migrate", "status"),
    ("doctor",),
    ("prune", "--dry-run"),
    ("export",),
    ("endpoints", "list"),
    ("streams", "list"),
    ("batches", "list"),
    ("dead", "list"),
    ("stats",),
    ("workers",),
    ("late",),
    ("stuck",),
]


def test_the_version_is_printed_without_heavy_imports() -> None:
    code = (
        "import sys; from duly.surfaces.cli.main import run; run(['--version']);"
        "print(sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    version, modules = done.stdout.splitlines()
    assert version == f"duly {__version__}"
    assert not HEAVY & set(eval(modules))


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_starts_by_itself(
    tmp_path: Path, empty_sqlite_url: str, command: str
) -> None:
    # A new interpreter: in a fork, another command may have imported what this one forgets.
    done = Home(tmp_path, empty_sqlite_url, start_anew).process(command, "--help")
    assert done.returncode == 0, done.stderr
    assert f"Usage: duly {command}" in done.stdout


@pytest.mark.parametrize("command", CLIENTS, ids=" ".join)
def test_a_client_command_creates_no_database(sqlite_home: Home, command: tuple[str, ...]) -> None:
    done = sqlite_home.duly(*command)
    assert done.returncode == 4
    assert "there is no database at" in done.stderr
    assert list(sqlite_home.folder.iterdir()) == []


def test_a_client_without_a_server_ends_with_code_4(sqlite_home: Home) -> None:
    away = f"postgresql://duly@127.0.0.1:{free_port()}/none"
    done = sqlite_home.duly("deliver", "log", database=away)
    assert done.returncode == 4
    assert done.stderr.startswith("error: PostgreSQL cannot be reached")


def test_invalid_usage_is_code_2_on_stderr(sqlite_home: Home) -> None:
    done = sqlite_home.duly("late", "--nonsense")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")


def test_the_overview_describes_each_command(sqlite_home: Home) -> None:
    assert "Run the engine and the HTTP server." in sqlite_home.ok()


def test_a_closed_pipe_is_not_an_error(sqlite_home: Home) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*DULY, "config", "show"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        env=environment({"DULY_DATABASE": sqlite_home.database}),
        timeout=DEADLINE_SECONDS,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidInput("x", "y"), 2),
        (errors.BadSetting("x", "y"), 2),
        (errors.NotFound("x", "y"), 3),
        (errors.StoreUnavailable(), 4),
        (errors.SchemaMismatch(), 1),
        (errors.Conflict(), 5),
        (errors.StoreIsOwned(), 1),
        (errors.DulyError(), 1),
    ],
)
def test_every_error_has_its_code(error: errors.DulyError, code: int) -> None:
    assert exit_code(error) == code


def test_logs_at_a_terminal_are_single_lines(sqlite_home: Home) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*DULY, "serve", "--port", "0"],
        stderr=theirs,
        stdout=subprocess.DEVNULL,
        cwd=sqlite_home.folder,
        env=environment({"DULY_DATABASE": sqlite_home.database}),
    )
    os.close(theirs)
    seen = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        while b"Press Ctrl-C to stop" not in seen:
            seen += terminal.read(1000)
        process.terminate()
        assert process.wait(DEADLINE_SECONDS) == 0
    text = seen.decode()
    assert "info    worker 1 started" in text
    assert f"duly {__version__} listens on http://127.0.0.1:" in text
    assert f"{sqlite_home.folder}/duly.db" in text
    assert "duly deliver log" in text
