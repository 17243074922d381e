"""Create .venv-peers in the project root and install the pinned peers, unless installed."""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".venv-peers"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def install() -> bool:
    """Install the pinned versions; returns whether anything was installed."""
    installed = ENVIRONMENT / "installed.txt"
    wanted = REQUIREMENTS.read_text()
    if installed.exists() and installed.read_text() == wanted:
        return False
    venv.create(ENVIRONMENT, clear=True, symlinks=True, with_pip=True)
    (ENVIRONMENT / ".gitignore").write_text("*\n")
    python = ENVIRONMENT / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--requirement", REQUIREMENTS], check=True
    )
    installed.write_text(wanted)
    return True


if __name__ == "__main__":
    done = "installed" if install() else "already installed"
    print(f"peers {done} in {ENVIRONMENT.name}", file=sys.stderr)
