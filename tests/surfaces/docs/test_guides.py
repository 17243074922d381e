"""The programs of the guides and of the README print what the pages say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.surfaces.processes import DEADLINE_SECONDS, environment

pytestmark = pytest.mark.requirement("S1", "S6")
ROOT = Path(__file__).parents[3]
GUIDES = ROOT / "docs" / "guides"
ON_BOTH = [ROOT / "README.md", GUIDES / "cron-to-webhook.md"]
ON_POSTGRES = [GUIDES / "outbox-sqlalchemy.md", GUIDES / "outbox-django.md"]
PROGRAM = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```", re.DOTALL | re.MULTILINE)
OUTPUT = re.compile(r"^```\n\$ python (\w+\.py).*?\n(.*?)^```", re.DOTALL | re.MULTILINE)


def check(page: Path, folder: Path, database: str) -> None:
    """Run each program of a page, and compare what it prints with the output on the page."""
    text = page.read_text()
    programs, outputs = dict(PROGRAM.findall(text)), dict(OUTPUT.findall(text))
    assert programs
    assert set(programs) == set(outputs)
    assert len(programs) == text.count("```python")
    for name, code in programs.items():
        (folder / name).write_text(code)
        assert printed(name, folder, database) == outputs[name]


def printed(name: str, folder: Path, database: str) -> str:
    done = subprocess.run(
        [sys.executable, name],
        cwd=folder,
        env=environment({"DULY_DATABASE": database}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_guide_is_checked() -> None:
    assert {page for page in (*ON_BOTH, *ON_POSTGRES) if page.parent == GUIDES} == set(
        GUIDES.glob("*.md")
    )


@pytest.mark.parametrize("page", ON_BOTH, ids=lambda page: page.stem)
def test_a_program_prints_its_output(page: Path, tmp_path: Path, empty_database_url: str) -> None:
    check(page, tmp_path, empty_database_url)


@pytest.mark.parametrize("page", ON_POSTGRES, ids=lambda page: page.stem)
def test_a_program_for_postgres_prints_its_output(
    page: Path, tmp_path: Path, empty_postgres_url: str
) -> None:
    driver = "+asyncpg" if "sqlalchemy" in page.stem else ""
    check(page, tmp_path, empty_postgres_url.replace("postgresql", f"postgresql{driver}", 1))
