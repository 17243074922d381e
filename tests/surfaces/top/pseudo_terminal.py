"""A pseudo terminal with a command in it: press keys, and wait for text on its screen."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from typing import Any, Self

from tests.support.forks import start
from tests.surfaces.processes import DEADLINE_SECONDS, Home, environment

HOME = b"\x1b[H"
STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class PseudoTerminal:
    """`duly top` at a terminal of that size; each frame is drawn from the first line on."""

    def __init__(
        self,
        home: Home,
        *arguments: str,
        width: int = 110,
        height: int = 30,
        term: str = "xterm-256color",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.ours, self._its = pty.openpty()
        self._set_size(width, height)
        self.before = termios.tcgetattr(self._its)
        self.output = b""
        self.process = start(
            "duly",
            "top",
            *arguments,
            stdin=self._its,
            stdout=self._its,
            stderr=subprocess.DEVNULL,
            cwd=home.folder,
            env=environment({"TERM": term, **(environ or {"DULY_DATABASE": home.database})}),
        )

    def press(self, keys: str) -> None:
        """Send keys as a terminal does."""
        os.write(self.ours, keys.encode())

    def screen(self) -> str:
        """The text of the last frame that was drawn completely."""
        frames = self.output.split(HOME)
        last = frames[-1].decode(errors="replace")
        return STYLE.sub("", last).replace("\r", "")

    def wait_for(self, *texts: str, without: str | None = None) -> str:
        """Read until the screen shows all the texts, and not the other one; returns the screen."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self._shows(texts, without):
            self._read_more(deadline, texts)
        return self.screen()

    def _shows(self, texts: tuple[str, ...], without: str | None) -> bool:
        screen = self.screen()
        return all(each in screen for each in texts) and (without is None or without not in screen)

    def _read_more(self, deadline: float, wanted: Any) -> None:
        left = deadline - time.monotonic()
        ready, _, _ = select.select([self.ours], [], [], max(left, 0))
        assert ready, f"no {wanted} on the screen:\n{self.screen()}"
        self.output += os.read(self.ours, 65536)

    def resize(self, width: int, height: int) -> None:
        """Change the size, as a window does."""
        self._set_size(width, height)
        self.process.send_signal(signal.SIGWINCH)

    def _set_size(self, width: int, height: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def end(self) -> int:
        """Wait until the command ends, and read what it wrote; returns its exit code."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end:\n{self.screen()}"
            self._read_available()
        self._read_available()
        return self.process.wait()

    def wait_until_stopped(self) -> None:
        """Wait until the process is suspended, and read what it wrote before."""
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert self.process.poll() is None, "the process ended"
        self._read_available()

    def _read_available(self) -> None:
        while select.select([self.ours], [], [], 0.01)[0]:
            self.output += os.read(self.ours, 65536)

    @property
    def is_restored(self) -> bool:
        """Whether modes, screen and cursor are as before the command."""
        text = self.output.decode(errors="replace")
        left = text.rfind("\x1b[?1049l") > text.rfind("\x1b[?1049h")
        cursor = text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l")
        return left and cursor and termios.tcgetattr(self._its) == self.before

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._its)
        os.close(self.ours)
