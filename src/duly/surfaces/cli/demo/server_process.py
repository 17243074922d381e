"""A real `duly serve` process on a folder of its own, which the demo may kill."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from duly.errors import DulyError

START_SECONDS = 30.0
KEPT_LINES = 20
SET_DEATH_SIGNAL = 1
"""prctl: the signal that a process gets when its parent ends."""
SETTINGS = ("DULY_", "BIRTHDAY_", "NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_")
"""The beginnings of variables that would change what the server does."""


class ServerFailed(DulyError):
    """The server of the demo did not start."""

    def __init__(self, log: str) -> None:
        super().__init__(f"the server did not start; its last log lines are:\n{log}")


class Logged(msgspec.Struct, frozen=True):
    """What is read of a log line."""

    event: str | None = None
    url: str | None = None


class ServerProcess:
    """A running server."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid
        self.url = ""
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._started = asyncio.get_running_loop().create_future()
        self._reader = asyncio.ensure_future(self._read())

    async def started(self) -> None:
        """Wait until it listens; ServerFailed if it does not."""
        with suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                self.url = await self._started
        if not self.url:
            raise ServerFailed("".join(self._lines))

    async def kill(self) -> None:
        """End it with SIGKILL, and wait until it is gone."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reader

    async def _read(self) -> None:
        """Read the log to its end, so that the server never waits for a full pipe."""
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            self._lines.append(line.decode(errors="replace"))
            url = _url_in(line)
            if url and not self._started.done():
                self._started.set_result(url)
        if not self._started.done():
            self._started.set_result("")


@asynccontextmanager
async def serving(
    folder: Path, app: str | None, settings: Mapping[str, str]
) -> AsyncIterator[ServerProcess]:
    """Serve from the folder while the block runs; afterwards the process is gone."""
    arguments = ["serve", *([app] if app else []), "--port", "0"]
    server = ServerProcess(await start_duly("duly", *arguments, folder=folder, settings=settings))
    try:
        await server.started()
        yield server
    finally:
        await asyncio.shield(server.kill())


async def start_duly(
    program: str, *arguments: str, folder: Path, settings: Mapping[str, str]
) -> asyncio.subprocess.Process:
    """Start `python -m program` in the folder, with these settings and no others."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", program, *arguments),
        cwd=folder,
        env=_environment(settings),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        # Ctrl-C at the terminal is for the demo only, which then ends the server.
        start_new_session=True,
        preexec_fn=_end_with_parent if sys.platform == "linux" else None,
    )


def _end_with_parent() -> None:
    """Let the system kill this process when the demo ends, also if that was killed itself."""
    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
    return kept | dict(settings)


def _url_in(line: bytes) -> str | None:
    """The URL, if the line says that the server listens."""
    try:
        logged = msgspec.json.decode(line, type=Logged)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return logged.url if logged.event == "Serving" else None
