"""Processes of Python programs that are forked and do not have to import duly.

They are real processes: each has its own id, environment, streams and folder, can be waited for
and gets signals. Only the start of a program cannot be tested with them.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {"stdin", "stdout", "stderr", "text", "cwd", "env"}
SET_CHILD_SUBREAPER = 36
"""prctl: orphaned descendants become our children."""


class Start(Protocol):
    """`python -m program arguments`; the options are some of Popen's."""

    def __call__(self, program: str, *arguments: str, **options: Any) -> subprocess.Popen[Any]: ...


def start(program: str, *arguments: str, **options: Any) -> subprocess.Popen[Any]:
    """A fork of the waiting process, on systems where orphans can be adopted."""
    assert options.keys() <= OPTIONS, "a fork ignores these options"
    if sys.platform == "linux":
        return Fork([sys.executable, "-m", program, *arguments], **options)
    return start_anew(program, *arguments, **options)


def start_anew(program: str, *arguments: str, **options: Any) -> subprocess.Popen[Any]:
    """A process of a new interpreter."""
    return subprocess.Popen([sys.executable, "-m", program, *arguments], **options)


class Fork(subprocess.Popen[Any]):
    """A process that is forked from one that waits with everything imported."""

    def _execute_child(self, args: list[str], *more: Any) -> None:
        """Called by Popen to start the process, after it made the pipes and before it reads."""
        (folder, environment), pipes = more[4:6], more[9:15]
        given = (pipes[0], pipes[3], pipes[5])
        request = {
            "program": args[2],
            "arguments": args[3:],
            "environment": dict(os.environ if environment is None else environment),
            "folder": str(folder or Path.cwd()),
        }
        streams = [own if each == -1 else each for own, each in enumerate(given)]
        self.pid = fork_server().fork(request, streams)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


class ForkServer:
    """The waiting process, and the socket for requests to it."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._asking, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.warm", str(its.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
            )
        atexit.register(self.close)

    def fork(self, request: dict[str, Any], streams: list[int]) -> int:
        """Fork a new child of ours; returns its process id."""
        with self._one_at_a_time:
            adopt(True)
            socket.send_fds(self._asking, [json.dumps(request).encode()], streams)
            number = self._asking.recv(100)
            adopt(False)
        assert number, "the fork server has ended"
        return int(number)

    def close(self) -> None:
        """End the fork server."""
        self._asking.close()
        self._process.wait()


@cache
def fork_server() -> ForkServer:
    """The fork server of this process, started once."""
    return ForkServer()


def adopt(orphans: bool) -> None:
    """Make orphaned descendants our children, or those of the system."""
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0)
