"""axe-core, which checks pages for accessibility; from npm, at the time of the tests.

`python -m tests.support.axe`, which `make test` runs, installs it where npm is.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

VERSION = "4.14.0"
FOLDER = Path(sys.prefix) / "node"
SCRIPT = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
MISSING = "no axe-core for the tests of accessibility; install npm, and run `make test` again"


def find_axe() -> str:
    """The script; without it the test is skipped, and fails in CI."""
    if SCRIPT.exists():
        return SCRIPT.read_text()
    if os.environ.get("CI"):
        pytest.fail(MISSING)
    pytest.skip(MISSING)


def install() -> None:
    """Install it beside what checks the dashboard's types, if it is missing."""
    if SCRIPT.exists():
        return
    if shutil.which("npm") is None:
        print(f"{MISSING}; until then they are skipped", file=sys.stderr)
        return
    command = ("npm", "install", "--silent", "--no-fund", "--no-audit", "--no-save")
    done = subprocess.run(
        (*command, "--prefix", str(FOLDER), f"axe-core@{VERSION}"),
        capture_output=True,
        text=True,
        check=False,
    )
    if not SCRIPT.exists():
        print(f"{MISSING}; npm said:\n{done.stderr}", file=sys.stderr)


if __name__ == "__main__":
    install()
