"""Servers in separate processes."""

import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from benchmarks.places import ROOT


@dataclass(frozen=True)
class Running:
    """A server: its URL and its process."""

    url: str
    number: int

    def memory(self) -> float:
        """Its resident memory in megabytes."""
        output = subprocess.check_output(["ps", "-o", "rss=", "-p", str(self.number)], text=True)
        return int(output) / 1024


@contextmanager
def running(*arguments: str, descriptors: int | None = None, **variables: str) -> Iterator[Running]:
    """Run a module that serves, until the block ends; with a limit of open files."""

    def limit() -> None:
        if descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=limit,
    )
    assert process.stdout is not None
    try:
        found = Running(_address(process.stdout), process.pid)
        # Keep reading: a process blocks when its output pipe is full.
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield found
    finally:
        process.terminate()
        process.wait()


def _address(output: IO[str]) -> str:
    for line in output:
        if line.startswith("http"):
            return line.strip()
        if '"Serving"' in line:
            return str(json.loads(line)["url"])
    raise RuntimeError("the server ended before it was ready")
