"""mypy and pyright, on the program of a user in which the lines `# wrong` are wrong."""

import re
import subprocess
import sys
from pathlib import Path

PYRIGHT = Path(sys.prefix) / "node" / "node_modules" / ".bin" / "pyright"


def assert_mypy_refuses_only_wrong_lines(program: str, folder: Path) -> None:
    """Check the program with `mypy --strict`."""
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", "cache"]
    _assert_only_wrong_lines_are_refused(program, folder, *mypy)


def assert_pyright_refuses_only_wrong_lines(program: str, folder: Path) -> None:
    """Check the program with pyright, which `make clients` installs, in its strict mode."""
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    _assert_only_wrong_lines_are_refused(
        program, folder, str(PYRIGHT), "--pythonpath", sys.executable
    )


def _assert_only_wrong_lines_are_refused(program: str, folder: Path, *command: str) -> None:
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        [*command, "program.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    refused = re.findall(r"program\.py:(\d+):(?:\d+ -)? error", done.stdout)
    wrong = {n for n, line in enumerate(program.splitlines(), 1) if line.endswith("# wrong")}
    assert set(map(int, refused)) == wrong, done.stdout + done.stderr
