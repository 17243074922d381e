"""The processes of a run, their input and output, and the CPU each has used."""

import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.places import ROOT, python_path
from tests.support.postgres import Server, children

TICKS = os.sysconf("SC_CLK_TCK")


class Member:
    """A process that prints a line when it is ready, and waits for a line to begin."""

    def __init__(self, module: str, *arguments: object, root: Path = ROOT) -> None:
        command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
        self._process = subprocess.Popen(
            command,
            cwd=root,
            env=os.environ | {"PYTHONPATH": python_path(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.greeting = self.read_line()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def write_line(self, line: str) -> None:
        """Write a line to its stdin."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def read_line(self) -> str:
        """Read its next line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended without output")
        return line.strip()

    def end(self) -> dict[str, int]:
        """Stop it, and return its counts."""
        self._process.terminate()
        counted: dict[str, int] = json.loads(self.read_line())
        self._process.wait()
        return counted

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class Sink(Member):
    """The receiver of the webhooks."""

    def __init__(self) -> None:
        super().__init__("webhooks.sink")
        self.port = int(self.greeting)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        """A URL of the receiver."""
        return f"http://{host}:{self.port}/{path}"

    async def arrived(self, count: int, within: float = 600) -> None:
        """Wait until this many arrived since the last report, or the time is over."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            self.write_line("count")
            if int(self.read_line()) >= count:
                return
            await asyncio.sleep(0.05)

    def report(self) -> dict[str, Any]:
        """The requests since the last report."""
        self.write_line("report")
        report: dict[str, Any] = json.loads(self.read_line())
        return report


def cpu_seconds(pid: int) -> float:
    """The CPU time that a process has used."""
    return sum(_times(pid)[:2])


def server_cpu_seconds(server: Server) -> float:
    """The CPU time of PostgreSQL: its first process, and all its children."""
    first = int((server.data_directory / "postmaster.pid").read_text().split()[0])
    used = sum(_times(first))
    for child in children(first):
        with suppress(FileNotFoundError):
            used += cpu_seconds(child)
    return used


def _times(pid: int) -> list[float]:
    """User and system time of a process, then those of its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return [int(each) / TICKS for each in fields[11:15]]
