"""Processes of Python programs that cost a fork each, and not the imports of duly.

They are as real as any other: they have a number, an environment, streams and a folder of their
own, are waited for and get signals. Only how a program starts is not seen in them.
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
"""prctl: who is orphaned below us becomes our child."""


class Start(Protocol):
    """`python -m program arguments`; the options are some of Popen's."""

    def __call__(self, program: str, *arguments: str, **options: Any) -> subprocess.Popen[Any]: ...


def start(program: str, *arguments: str, **options: Any) -> subprocess.Popen[Any]:
    """A copy of one that waits, where orphans can be adopted."""
    assert options.keys() <= OPTIONS, "a fork would know nothing of it"
    if sys.platform == "linux":
        return Fork([sys.executable, "-m", program, *arguments], **options)
    return start_anew(program, *arguments, **options)


def start_anew(program: str, *arguments: str, **options: Any) -> subprocess.Popen[Any]:
    """A process that begins at the beginning."""
    return subprocess.Popen([sys.executable, "-m", program, *arguments], **options)


class Fork(subprocess.Popen[Any]):
    """A process that is forked from one that has all imported and waits."""

    def _execute_child(self, args: list[str], *more: Any) -> None:
        """What Popen calls to start the process, after it made the pipes and before it reads."""
        (folder, environment), pipes = more[4:6], more[9:15]
        given = (pipes[0], pipes[3], pipes[5])
        request = {
            "program": args[2],
            "arguments": args[3:],
            "environment": dict(os.environ if environment is None else environment),
            "folder": str(folder or Path.cwd()),
        }
        streams = [own if each == -1 else each for own, each in enumerate(given)]
        self.pid = nursery().fork(request, streams)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


class Nursery:
    """The process that waits, and how it is asked."""

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
        """The number of a new child of ours."""
        with self._one_at_a_time:
            adopt(True)
            socket.send_fds(self._asking, [json.dumps(request).encode()], streams)
            number = self._asking.recv(100)
            adopt(False)
        assert number, "the process that waits has ended"
        return int(number)

    def close(self) -> None:
        """Let it go."""
        self._asking.close()
        self._process.wait()


@cache
def nursery() -> Nursery:
    """One for all, kept."""
    return Nursery()


def adopt(orphans: bool) -> None:
    """Whether orphans below become our children; otherwise they become the system's."""
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0)
