"""A process that has imported all of duly and waits; whoever asks gets a copy to run a program.

Started by `tests.support.forks` alone, as `python -m tests.support.warm SOCKET`.
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
    """Wait, and in every copy be the program that was asked for."""
    end = End()
    load()
    with socket.socket(fileno=int(sys.argv[1])) as asking:
        asked = copied(asking)
    if asked is not None:
        become(**asked)
        with end:
            runpy.run_module(asked["program"], run_name="__main__", alter_sys=True)


class End:
    """A usual end without taking the imports apart one by one, which takes as long as the rest.

    What is registered first comes last: after threads were waited for and all others were told.
    """

    def __init__(self) -> None:
        self.code: object = "not yet"
        atexit.register(self._leave)

    def __enter__(self) -> None:
        """The program runs."""

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
    """Import whatever a program might; it has to leave no thread behind, which no fork copies."""
    for each in pkgutil.walk_packages(duly.__path__, "duly."):
        if not each.name.endswith("__main__"):
            import_module(each.name)
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()


def copied(asking: socket.socket) -> dict[str, Any] | None:
    """Fork for everybody who asks; returns in each copy what was asked, here when nobody will."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(asking, LONGEST_REQUEST, 3)
        if not request:
            return None
        reading, writing = os.pipe()
        if is_copy(writing):
            os.close(reading)
            os.close(writing)
            return {**json.loads(request), "descriptors": descriptors}
        for descriptor in (writing, *descriptors):
            os.close(descriptor)
        with os.fdopen(reading, "rb") as told:
            asking.send(told.read())


def is_copy(telling: int) -> bool:
    """Fork twice, and tell the number of the second: an orphan, it is adopted by who asked."""
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        return False
    if number := os.fork():
        os.write(telling, str(number).encode())
        os._exit(0)
    return True


def become(
    program: str,
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    descriptors: list[int],
) -> None:
    """Be as if just started with these."""
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
