"""The hooks of mkdocs: they add the reference pages, and the files that pages link to."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from reference import command_pages, http_pages, metric_pages, python_pages, setting_pages

ROOT = Path(__file__).parents[1]
PAGES: dict[str, Callable[[], str]] = {
    "reference/python.md": python_pages.page,
    "reference/http.md": http_pages.page,
    "reference/cli.md": command_pages.page,
    "reference/settings.md": setting_pages.page,
    "reference/metrics.md": metric_pages.page,
}
"""The generated pages, by their path in the site."""
DECISIONS = "decisions/README.md"
LINK = re.compile(r"\]\(((?:\.\./)+[\w./-]+)(#[\w-]+)?\)")
LANGUAGES = {".yaml": "yaml", ".yml": "yaml", ".service": "ini", ".json": "json"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those in docs/."""
    pages = {path: make() for path, make in PAGES.items()} | dict(map(_shown, _linked(files)))
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links that leave docs/ lead to the page that shows the file."""
    here: str = page.file.src_uri

    def moved(found: re.Match[str]) -> str:
        path = outside(here, found[1])
        if path is None:
            return found[0]
        return f"]({relpath(_page_of(path), dirname(here) or '.')}{found[2] or ''})"

    text = LINK.sub(moved, markdown)
    return text + _decisions() if here == DECISIONS else text


def _decisions() -> str:
    """A list of the pages beside the one about decisions, with their titles."""
    pages = sorted((ROOT / "docs" / DECISIONS).parent.glob("*.md"))
    titles = {page.name: page.read_text().partition("\n")[0].lstrip("# ") for page in pages}
    own = Path(DECISIONS).name
    return "\n" + "".join(f"- [{titles[name]}]({name})\n" for name in titles if name != own)


def outside(page: str, link: str) -> str | None:
    """The path in the repository that a link leads to; None if it stays in docs/."""
    path = normpath(f"docs/{dirname(page)}/{link}")
    return None if path.startswith("docs/") else path


def _linked(files: Files) -> list[str]:
    links = {
        outside(file.src_uri, link)
        for file in files.documentation_pages()
        for link, _ in LINK.findall(file.content_string)
    }
    return sorted(path for path in links if path is not None and (ROOT / path).is_file())


def _shown(path: str) -> tuple[str, str]:
    """The page that shows a file, and its text."""
    text = (ROOT / path).read_text()
    if not path.endswith(".md"):
        language = LANGUAGES.get(Path(path).suffix, "")
        text = f"# {path}\n\n```{language}\n{text}```\n"
    return _page_of(path), text


def _page_of(path: str) -> str:
    return f"files/{path.removesuffix('.md')}.md"
