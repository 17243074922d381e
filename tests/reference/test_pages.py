"""The generated pages contain everything that the code has."""

import re

import pytest

import duly
from duly.settings import described
from duly.surfaces.cli.command_line import COMMANDS
from duly.surfaces.http.application import API
from reference import command_pages, http_pages, metric_pages, python_pages, setting_pages
from reference.http_pages import kind_of
from reference.tables import row

pytestmark = pytest.mark.requirement("S6")


def test_every_public_name_is_on_the_page_about_python() -> None:
    page = python_pages.page()
    names = set(duly.__all__) - {"__version__"}
    assert {name for name in names if f"### duly.{name}\n" not in page} == set()
    assert {name for group in python_pages.GROUPS.values() for name in group} == names


def test_a_default_is_shown_by_its_name() -> None:
    shown = python_pages.signature("duly.App", duly.App.__init__)
    assert "environment: Mapping[str, str]=os.environ" in shown
    assert shown.startswith("duly.App(database: str | None=None, *, pool: Any=None")


def test_every_method_of_a_resource_has_its_text() -> None:
    page = python_pages.page()
    empty = re.findall(r"^#### (\S+)\n\n```python\n.*\n```\n\n\n", page, re.MULTILINE)
    assert [name for name in empty if not name.startswith("app.")] == []
    assert "await app.schedules.pause(name: str, reason: str | None=None)" in page


def test_every_request_is_on_the_page_about_http() -> None:
    page = http_pages.page()
    requests = {f"### `{each.method} {each.path}`" for each in API}
    assert {each for each in requests if each not in page} == set()


def test_links_to_documents_lead_to_their_headings() -> None:
    page = http_pages.page()
    headings = {each.lower() for each in re.findall(r"^### (\w+)$", page, re.MULTILINE)}
    assert set(re.findall(r"\]\(#(\w+)\)", page)) <= headings


def test_the_type_of_a_value_is_shown_in_words() -> None:
    several = {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}
    assert kind_of(several) == "date-time or null"
    assert kind_of({"type": "array", "items": {"type": "integer"}}) == "list of integer"
    assert kind_of({"$ref": "#/components/schemas/State"}) == "[State](#state)"
    assert kind_of({"enum": ["a", "b"]}) == "`a`, `b`"


def test_every_command_is_on_the_page_about_commands() -> None:
    page = command_pages.page()
    assert {name for name in COMMANDS if f"## duly {name}\n" not in page} == set()
    assert "--cron STR" in page
    assert page.startswith("# Commands\n")


def test_every_setting_is_on_the_page_about_settings() -> None:
    page = setting_pages.page()
    assert {each.variable for each in described() if f"`{each.variable}`" not in page} == set()


def test_metrics_of_the_process_and_of_the_store_are_on_the_page_about_metrics() -> None:
    page = metric_pages.page()
    for name in ("duly_accepted_total", "duly_running", "duly_deliveries", "duly_alerts"):
        assert f"| `{name}` |" in page


def test_a_bar_or_a_line_end_does_not_end_a_cell() -> None:
    assert row("a|b", "c\nd") == "| a\\|b | c d |\n"
