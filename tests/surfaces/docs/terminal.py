"""A bash that types the commands of the docs."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Self

from tests.surfaces.processes import DEADLINE_SECONDS, environment

DONE = "-- done:"


class Terminal:
    """A bash in a folder where make has installed duly."""

    def __init__(self, folder: Path, more: dict[str, str]) -> None:
        self._bash = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=clean_environment({"CURL_HOME": str(folder), **more}),
            start_new_session=True,
        )

    def type(self, command: str) -> None:
        """Start a command."""
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{command}\nprintf '\\n{DONE} %d\\n' $?\n")
        self._bash.stdin.flush()

    def run(self, command: str) -> str:
        """Run a command that has to succeed; returns its output."""
        self.type(command)
        *printed, last = self._lines_to(DONE)
        assert last.split() == [*DONE.split(), "0"], (command, printed)
        return "".join(printed)

    def line_with(self, text: str) -> str:
        """Wait for the next line that contains the text."""
        return self._lines_to(text)[-1]

    def _lines_to(self, text: str) -> list[str]:
        assert self._bash.stdout is not None
        lines: list[str] = []
        while not lines or text not in lines[-1]:
            lines.append(self._bash.stdout.readline())
            assert lines[-1], ("it ended", lines)
        return lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """End everything that runs here with Ctrl-C."""
        os.killpg(self._bash.pid, signal.SIGINT)
        try:
            self._bash.communicate(timeout=DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._bash.pid, signal.SIGKILL)
            raise


def clean_environment(more: dict[str, str]) -> dict[str, str]:
    """The environment without variables of the make that runs these tests."""
    ours = environment(more)
    return {name: ours[name] for name in ours if not name.startswith("MAKE") and name != "PYTHON"}
