"""Programs of users, each run in a process of its own with all warnings as errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

SECONDS = 60
BEGIN = """
import sys
import duly

app = duly.App(sys.argv[1], environment={})
app.expect("work")
"""


def command(folder: Path, text: str, *arguments: str) -> list[str]:
    """The command that runs a program; the development mode also reports what is left open."""
    program = folder / "program.py"
    program.write_text(BEGIN + dedent(text))
    return [sys.executable, "-X", "dev", "-W", "error", str(program), *arguments]


def start(folder: Path, text: str, *arguments: str) -> subprocess.Popen[str]:
    """A running program."""
    return subprocess.Popen(
        command(folder, text, *arguments),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, text: str, *arguments: str) -> list[str]:
    """The lines that a program prints; it has to end by itself, without an error or a warning."""
    with start(folder, text, *arguments) as process:
        try:
            out, err = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    assert (process.returncode, complaints(err)) == (0, []), err
    return out.splitlines()


def complaints(err: str) -> list[str]:
    """What a program wrote to stderr, without the steps that asyncio finds slow."""
    return [line for line in err.splitlines() if not line.startswith("Executing <")]
