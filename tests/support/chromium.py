"""A real Chromium for the tests of the dashboard: the one on this machine, or Debian's.

`python -m tests.support.chromium`, which `make test` runs, installs it where that is possible.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
INSTALL = ("apt-get", "install", "--yes", "--no-install-recommends", "chromium")
COMMANDS = (INSTALL, ("apt-get", "update"), INSTALL)
"""The list of packages may be missing or old, so it is fetched after a first failure."""
MISSING = (
    "no Chromium on PATH for the tests of the dashboard; install it (apt-get install chromium)"
)


def find_chromium() -> Path:
    """The browser; without one the test is skipped, and fails in CI."""
    found = _on_path()
    if found is None and os.environ.get("CI"):
        pytest.fail(MISSING)
    if found is None:
        pytest.skip(MISSING)
    return found


def _on_path() -> Path | None:
    return next((Path(path) for name in NAMES if (path := shutil.which(name))), None)


def install() -> None:
    """Install Debian's package if there is no browser, which only root can do."""
    if _on_path() is not None:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        print(f"{MISSING}; until then they are skipped", file=sys.stderr)
        return
    print("installing Chromium for the tests of the dashboard", file=sys.stderr)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    said = ""
    for command in COMMANDS:
        said = subprocess.run(
            command, capture_output=True, text=True, check=False, env=quiet
        ).stderr
        if _on_path() is not None:
            return
    print(f"{MISSING}; apt-get said:\n{said}", file=sys.stderr)


if __name__ == "__main__":
    install()
