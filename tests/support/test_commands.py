"""A command in this process behaves like its own process, and leaves nothing behind."""

import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from duly.surfaces.cli import main as entry
from tests.support.commands import run_command
from tests.support.forks import start

HANDLERS = """
import logging, os, sys, duly
logging.getLogger("shop").warning("imported")
logging.getLogger().setLevel("DEBUG")
os.environ["SHOP"] = "open"
app = duly.App()
"""


def as_process(
    *arguments: str, environ: dict[str, str], folder: Path, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start("duly", *arguments, cwd=folder, env=environ, text=True, **pipes) as process:
        out, err = process.communicate(stdin, 60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        (("--version",), "", 0),
        ((), "", 0),
        (("late", "--nonsense"), "", 2),
        (("config", "show"), "", 0),
        (("deliver", "log", "-", "--json", "--id", "x"), '"ö"', 2),
        (("deliver", "nobody.knows.it", "-"), '"ö"', 2),
        (("deliveries", "show", "0198c1f2-7a5e-7001-8000-00000000000a"), "", 3),
        (("schedules", "explain", "0 9 * * MON", "-n", "2"), "", 0),
        (("import", "--dry-run"), "no export\n", 2),
        (("dead", "poison", "shop:app"), "", 0),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_it_ends_and_prints_the_same_as_a_process(
    tmp_path: Path, sqlite_url: str, arguments: tuple[str, ...], stdin: str, code: int
) -> None:
    (tmp_path / "shop.py").write_text(HANDLERS)
    environ = {"DULY_DATABASE": sqlite_url, "PATH": "", "LC_ALL": "C.UTF-8"}
    here = run_command(*arguments, environ=environ, folder=tmp_path, stdin=stdin)
    there = as_process(*arguments, environ=environ, folder=tmp_path, stdin=stdin)
    assert (here.returncode, here.stdout, here.stderr) == (
        there.returncode,
        there.stdout,
        there.stderr,
    )
    assert here.returncode == code, here.stderr


def test_it_leaves_nothing_behind(tmp_path: Path, sqlite_url: str) -> None:
    (tmp_path / "shop.py").write_text(HANDLERS)
    environ = {"DULY_DATABASE": sqlite_url}

    def state() -> tuple[object, ...]:
        root = logging.getLogger()
        mask = os.umask(0)
        os.umask(mask)
        return (
            dict(os.environ),
            Path.cwd(),
            (sys.argv, list(sys.path), sys.stdin, sys.stdout, sys.stderr),
            (root.level, list(root.handlers)),
            [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)],
            mask,
            threading.active_count(),
            {name for name in sys.modules if not name.startswith(("duly.", "rich.", "cyclopts."))},
        )

    run_command("dead", "list", environ=environ, folder=tmp_path)
    before = state()
    done = run_command("dead", "poison", "shop:app", environ=environ, folder=tmp_path)
    assert "imported" in done.stderr
    assert state() == before


async def test_it_runs_during_an_event_loop_and_a_failure_is_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_command("--version", environ={}, folder=tmp_path).returncode == 0

    def breaks(_arguments: list[str]) -> int:
        raise ValueError("a fault")

    monkeypatch.setattr(entry, "run", breaks)
    done = run_command("--version", environ={}, folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("ValueError: a fault\n")


@pytest.mark.parametrize("command", ["serve", "work"])
def test_commands_that_need_a_process_are_refused(command: str) -> None:
    with pytest.raises(AssertionError, match="needs its own process"):
        run_command(command, environ={})
