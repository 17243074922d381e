"""Retry plans on the command line: on the store, and through the server in front of it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surfaces.processes import Home
from tests.surfaces.sides import Sides, both_sides

pytestmark = pytest.mark.requirement("F2", "S6")
PLAN = "exponential:base=5,attempts=3;timeout_exceeded=none;retry_on=4xx"
DOCUMENT = {
    "type": "exponential",
    "rules": {"timeout_exceeded": {"type": "none"}},
    "retry_on": "4xx",
    "base": 5.0,
    "attempts": 3,
}
WORDS = (
    "after 5s, doubling up to 1h, at most 3 attempts; other rules for timeout_exceeded; "
    "after 4xx too"
)
PRESET = {"type": "delays", "seconds": [30.0, 120.0, 600.0]}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory, sqlite_schema: Path) -> Iterator[Sides]:
    """One server for all tests, on SQLite because the store does not matter here."""
    folder = tmp_path_factory.mktemp("plans")
    (folder / "duly.db").write_bytes(sqlite_schema.read_bytes())
    with both_sides(Home(folder, f"sqlite:///{folder}/duly.db")) as found:
        yield found


@pytest.mark.parametrize("side", ["store", "server"])
def test_a_delivery_has_the_given_plan(sides: Sides, side: str) -> None:
    run = getattr(sides, side)
    done = run("deliver", "log", "--after", "1d", "--retry", PLAN, "--json")
    id = done.document["id"]
    assert run("deliveries", "show", id, "--json").document["retry"] == DOCUMENT
    assert WORDS in run("deliveries", "show", id).out


@pytest.mark.parametrize("side", ["store", "server"])
def test_the_output_for_a_webhook_has_the_number_of_attempts(sides: Sides, side: str) -> None:
    done = getattr(sides, side)(
        "send", "http://127.0.0.1:9/", "--after", "1d", "--retry", "delays:1,2"
    )
    assert "; at most 3 attempts" in done.err


@pytest.mark.parametrize("side", ["store", "server"])
def test_a_schedule_has_the_given_plan(sides: Sides, side: str) -> None:
    run, add = getattr(sides, side), ("schedules", "add", f"by-{side}", "log", "--every", "1d")
    assert run(*add, "--retry", PLAN).code == 0
    shown = run("schedules", "show", f"by-{side}", "--json").document
    assert shown["retry"] == DOCUMENT
    assert WORDS in run("schedules", "show", f"by-{side}").out
    assert run(*add).code == 0, "an omitted plan is the default"
    shown = run("schedules", "show", f"by-{side}", "--json").document
    assert shown["retry"] is None


@pytest.mark.parametrize("side", ["store", "server"])
def test_an_endpoint_has_the_given_plan_until_it_is_removed(sides: Sides, side: str) -> None:
    run, name = getattr(sides, side), f"by-{side}"
    assert run("endpoints", "add", name, "http://127.0.0.1:9/", "--retry", "none").code == 0
    assert run("endpoints", "show", name, "--json").document["retry"] == {"type": "none"}
    edited = run("endpoints", "edit", name, "--retry", PLAN, "--json")
    assert edited.document["retry"] == DOCUMENT
    assert WORDS in run("endpoints", "show", name).out
    taken = run("endpoints", "edit", name, "--default-retry", "--json")
    assert taken.document["retry"] == PRESET


def test_plans_are_exported_and_imported_as_the_same_document(sides: Sides) -> None:
    done = sides.store("deliver", "log", "--after", "1d", "--retry", PLAN, "--json")
    id = done.document["id"]
    lines = [json.loads(line) for line in sides.store("export").out.splitlines()]
    (found,) = [each for each in lines if each.get("id") == id]
    assert found["retry"] == DOCUMENT
