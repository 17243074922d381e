"""A process that has imported all of duly and forks on request to run a program.

Started only by `tests.support.forks`, as `python -m tests.support.warm SOCKET`.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import pkgutil
import runpy
import socket
import sys
import threading
from contextlib import suppress
from importlib import import_module
from typing import Any

import duly

LONGEST_REQUEST = 1_000_000


def main() -> None:
    """Wait for requests; in each fork, run the requested program."""
    end = End()
    load()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        request = serve_forks(requests)
    if request is not None:
        become(**request)
        with end:
            runpy.run_module(request["program"], run_name="__main__", alter_sys=True)


class End:
    """A normal exit that skips the unloading of modules, which takes as long as the rest.

    The first registered exit function runs last: after threads have ended and all others ran.
    """

    def __init__(self) -> None:
        self.code: object = "not yet"
        atexit.register(self._leave)

    def __enter__(self) -> None:
        """The program starts."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, SystemExit | None):
            self.code = (error and error.code) or 0

    def _leave(self) -> None:
        if isinstance(self.code, int):
            with suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(self.code)


def load() -> None:
    """Import all modules; no thread may be running afterwards, because a fork does not copy it."""
    for each in pkgutil.walk_packages(duly.__path__, "duly."):
        if not each.name.endswith("__main__"):
            import_module(each.name)
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()


def serve_forks(requests: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; returns the request in the fork, and None here at the end."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, LONGEST_REQUEST, 3)
        if not request:
            return None
        reading, writing = os.pipe()
        if is_fork(writing):
            os.close(reading)
            os.close(writing)
            return {**json.loads(request), "descriptors": descriptors}
        for descriptor in (writing, *descriptors):
            os.close(descriptor)
        with os.fdopen(reading, "rb") as answer:
            requests.send(answer.read())


def is_fork(answering: int) -> bool:
    """Fork twice and write the id of the second: it is an orphan, adopted by the caller."""
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        return False
    if number := os.fork():
        os.write(answering, str(number).encode())
        os._exit(0)
    return True


def become(
    program: str,
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    descriptors: list[int],
) -> None:
    """Set up this process as if it was started with these."""
    for standard, descriptor in enumerate(descriptors):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[0] = folder
    sys.argv[:] = [program, *arguments]


if __name__ == "__main__":
    main()
