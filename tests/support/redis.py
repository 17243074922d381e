"""A real Redis for the tests: found on this machine, or Debian's, unpacked into a cache."""

import os
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import NoReturn, Self

import pytest

from tests.support.postgres import free_port

PACKAGES = ("redis-server", "redis-tools", "liblzf1", "libjemalloc2")
"""The last two are libraries of its programs."""
DEADLINE_SECONDS = 30.0


@cache
def find_program() -> Path | None:
    """The server on this machine, or one from Debian's packages; root is not needed."""
    if chosen := shutil.which("redis-server"):
        return Path(chosen)
    unpacked = _cache() / "usr/bin/redis-server"
    if not unpacked.exists():
        _unpack(_cache())
    return unpacked if unpacked.exists() else None


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "duly-tests" / "redis"


def _unpack(folder: Path) -> None:
    """Download and unpack the packages, completely or not at all."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        command = ["apt-get", "download", *PACKAGES]
        done = subprocess.run(command, cwd=scratch, capture_output=True, check=False, timeout=300)
        if done.returncode:
            return
        for package in Path(scratch).glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(package), f"{scratch}/root"], check=True)
        # Another process may have been faster.
        if not folder.exists():
            Path(scratch, "root").rename(folder)


class RedisServer:
    """A server on loopback without files, which can be stopped, suspended and restarted."""

    def __init__(self, password: str = "") -> None:
        program = find_program()
        if program is None:
            give_up()
        self._program = program
        self.port = free_port()
        self._password = password
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        user = f":{self._password}@" if self._password else ""
        return f"redis://{user}127.0.0.1:{self.port}/3"

    def start(self) -> None:
        """Start it; returns when it accepts connections."""
        libraries = self._program.parents[1] / "lib" / f"{os.uname().machine}-linux-gnu"
        command = [str(self._program), "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", tempfile.gettempdir()]
        command += ["--requirepass", self._password] if self._password else []
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LD_LIBRARY_PATH": str(libraries)},
        )
        self._wait_until_open(self._process)

    def _wait_until_open(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        output, deadline = b"", time.monotonic() + DEADLINE_SECONDS
        while b"Ready to accept connections" not in output:
            line = process.stdout.readline()
            assert line, output.decode(errors="replace")
            assert time.monotonic() < deadline, output
            output += line

    def stop(self) -> None:
        """Stop it; its data is lost."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def signal(self, number: int) -> None:
        """Send a signal; SIGSTOP suspends it."""
        assert self._process is not None
        self._process.send_signal(number)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


def give_up() -> NoReturn:
    """Skip the test with a warning; in CI, fail."""
    problem = (
        "No redis-server for the tests of analytics: none on PATH, and none could be downloaded"
        " with apt-get. Install it (apt-get install redis-server)."
    )
    if os.environ.get("CI") == "true":
        pytest.fail(problem)
    pytest.skip(problem)
