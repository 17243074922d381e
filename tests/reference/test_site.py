"""The documentation as a site: it builds without a warning, and loads nothing from another host."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("material", reason="`make docs` installs mkdocs-material")
ROOT = Path(__file__).parents[2]
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
ELSEWHERE = re.compile(r"^(?:https?:)?//")
IMPORTED = re.compile(r"url\(\s*['\"]?(?:https?:)?//|@import")


class Loads(HTMLParser):
    """Collects the addresses that a page loads by itself; links that people follow are none."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in LOADED and given.get("rel") != "canonical":
            self.found.append(given.get(LOADED[tag]) or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder))
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "SITE_MARKER": "only-in-the-environment"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.long
@pytest.mark.requirement("S6")
def test_every_page_is_in_the_site(site: Path) -> None:
    sources = {each.relative_to(ROOT / "docs") for each in (ROOT / "docs").rglob("*.md")}
    missing = [
        str(each)
        for each in sources
        if not (site / each.with_suffix(".html")).exists()
        and not (each.name == "README.md" and (site / each.parent / "index.html").exists())
    ]
    assert missing == []


@pytest.mark.long
@pytest.mark.requirement("S6")
def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    loads = [each for page in pages for each in Loads(page.read_text()).found]
    assert len(loads) > len(pages)
    assert [each for each in loads if ELSEWHERE.match(each)] == []
    assert [str(each) for each in site.rglob("*.css") if IMPORTED.search(each.read_text())] == []


@pytest.mark.long
@pytest.mark.requirement("S6")
def test_the_reference_shows_names_and_not_values_of_this_machine(site: Path) -> None:
    text = (site / "reference/python.html").read_text()
    assert "os.environ" in re.sub(r"<[^>]+>", "", text)
    assert "only-in-the-environment" not in text
    assert str(ROOT) not in text


@pytest.mark.requirement("S6")
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_docs_runs_this_build() -> None:
    done = subprocess.run(
        ("make", "--dry-run", "docs"), cwd=ROOT, capture_output=True, text=True, check=True
    )
    (build,) = re.findall(r"^.* -m mkdocs build .*$", done.stdout, re.MULTILINE)
    assert "--strict" in build
    # With it a warning is no failure.
    assert "--quiet" not in build
