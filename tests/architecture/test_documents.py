"""Every file that the pages about the architecture name exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "docs/architecture.md", *(ROOT / "docs/architecture").glob("*.md")])
NAMED = re.compile(r"`((?:[\w.-]+/)+(?:[\w-]+\.(?:py|sql|md))?)`")
PLACES = ("", "src", "src/duly", "birthday/src", "docs")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_that_is_named_exists(page: Path) -> None:
    named = NAMED.findall(page.read_text())
    missing = [name for name in named if not any((ROOT / at / name).exists() for at in PLACES)]
    assert missing == []


def test_the_pages_contain_names_of_files() -> None:
    assert len({name for page in PAGES for name in NAMED.findall(page.read_text())}) > 80
