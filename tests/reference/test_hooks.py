"""Links of pages that leave docs/ lead to a page that shows the file."""

from types import SimpleNamespace

import pytest

pytest.importorskip("mkdocs", reason="`make docs` installs mkdocs")

from reference.hooks import on_page_markdown, outside

pytestmark = pytest.mark.requirement("S6")


def page(path: str) -> SimpleNamespace:
    return SimpleNamespace(file=SimpleNamespace(src_uri=path))


def test_a_link_inside_docs_is_kept() -> None:
    assert outside("guides/a.md", "../outbox.md") is None
    text = "see [outbox](../outbox.md#the-inbox)"
    assert on_page_markdown(text, page("guides/a.md")) == text


def test_a_link_to_a_file_of_the_repository_is_moved() -> None:
    assert outside("serving.md", "../deploy/duly.service") == "deploy/duly.service"
    moved = on_page_markdown("[unit](../../deploy/duly.service)", page("operations/deploy.md"))
    assert moved == "[unit](../files/deploy/duly.service.md)"
    moved = on_page_markdown("[how](../benchmarks/README.md#draining)", page("comparison.md"))
    assert moved == "[how](files/benchmarks/README.md#draining)"


def test_the_page_about_decisions_lists_them() -> None:
    text = on_page_markdown("# Decisions\n", page("decisions/README.md"))
    assert "- [Our own cron](our-own-cron.md)" in text
    assert "README.md" not in text
