"""Commands of `duly` that run in this process: same interface as a process, without its start.

A command runs in a thread with an event loop of its own, so tests with a running loop can call it.
The environment, folder, arguments, streams and logging are set for it and restored afterwards.
What belongs to a process is not available: `serve` and `work`, signals, failpoints, a terminal's
keys. Tests of those start a real one with `tests.support.forks`.
"""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path
from unittest.mock import patch

import duly
from duly.surfaces.cli.main import main

DEADLINE_SECONDS = 60.0
PROGRAM = str(Path(duly.__file__).with_name("__main__.py"))
NEEDS_A_PROCESS = ("serve", "work")
"""Commands that set the signal handlers and the log of their process."""
_one_at_a_time = threading.Lock()


def run_command(
    *arguments: str,
    environ: Mapping[str, str],
    folder: Path | None = None,
    stdin: str = "",
    at_terminal: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `environ` is all of its environment."""
    assert not set(arguments[:1]) & set(NEEDS_A_PROCESS), "this command needs its own process"
    assert "DULY_FAILPOINTS" not in environ, "failpoints need a new process"
    out, err = Stream(is_terminal=at_terminal), Stream(errors="backslashreplace")
    argv = [PROGRAM, *arguments]
    place = folder or Path.cwd()
    streams = patch.multiple(sys, argv=argv, stdin=Stream(stdin), stdout=out, stderr=err)
    clean = patch.dict(os.environ, environ, clear=True)
    with _one_at_a_time, streams, clean, chdir(place), _own_imports(place), _own_log():
        code = _ended(out, err)
    return subprocess.CompletedProcess(argv, code, out.text(), err.text())


class Stream(io.TextIOWrapper):
    """A standard stream in memory."""

    def __init__(self, text: str = "", errors: str = "strict", is_terminal: bool = False) -> None:
        super().__init__(io.BytesIO(text.encode()), "utf-8", errors, write_through=True)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        """Whether it claims to be a terminal."""
        return self._is_terminal

    def text(self) -> str:
        """Everything that was written."""
        self.seek(0)
        return self.read()


def _ended(out: Stream, err: Stream) -> int:
    command = _Command()
    command.start()
    command.join(DEADLINE_SECONDS)
    assert not command.is_alive(), f"the command did not end:\n{out.text()}\n{err.text()}"
    return command.code


class _Command(threading.Thread):
    """The program that `sys.argv` names, and the exit code that a process would have."""

    def __init__(self) -> None:
        super().__init__(name="command", daemon=True)
        self.code = 0

    def run(self) -> None:
        try:
            main()
        except SystemExit as end:
            self.code = int(end.code or 0)
        except BaseException:
            traceback.print_exc()
            self.code = 1


@contextmanager
def _own_imports(folder: Path) -> Iterator[None]:
    """Import from the folder first, and unload the modules of the folder afterwards."""
    known = set(sys.modules)
    with patch.object(sys, "path", [str(folder), *sys.path]):
        yield
    for name in sys.modules.keys() - known:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and Path(file).is_relative_to(folder):
            del sys.modules[name]


@contextmanager
def _own_log() -> Iterator[None]:
    """Log as a process without configuration: warnings, as plain lines on stderr."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    root.setLevel(logging.WARNING)
    root.handlers[:] = []
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
