"""The entry point of the command line; it imports only what the command needs."""

from __future__ import annotations

import os
import signal
import sys

from duly.safe_text import visible
from duly.surfaces.cli.terminal.exit_codes import BAD_USAGE, run_command
from duly.version import __version__

SERVING = (["serve"], ["work"])
PIPE_CLOSED = 141


def main() -> None:
    """Run the command in the arguments, and exit with its code."""
    if sys.argv[1:2] in SERVING:
        # Before the server handles signals itself, nothing has to be stopped.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; an error of duly is printed as one line and returned as an exit code."""
    if arguments in (["--version"], ["-V"]):
        print(f"duly {__version__}")
        return 0
    try:
        return run_command(lambda: _dispatch(arguments))
    except BrokenPipeError:
        # The reader has closed the pipe; without this the interpreter complains when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def _dispatch(arguments: list[str]) -> int:
    from cyclopts import CycloptsError

    from duly.surfaces.cli.command_line import command_line

    app = command_line(overview=arguments[:1] in ([], ["--help"], ["-h"]))
    try:
        code: int = app(arguments, result_action="return_int_as_exit_code_else_zero")
    except CycloptsError as error:
        print(f"error: {visible(str(error))}", file=sys.stderr)
        return BAD_USAGE
    sys.stdout.flush()
    return code
