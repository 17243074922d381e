"""Every ticked promise has a test, and every requirement of a test is a promise."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PROMISE = re.compile(r"^- \[(?P<tick>[ x])\] (?P<id>[A-Z]\d+) \S", re.MULTILINE)


def test_every_kept_promise_has_a_test() -> None:
    assert untested(promises(), requirements()) == []


def test_every_requirement_of_a_test_is_a_promise() -> None:
    assert unknown(promises(), requirements()) == []


def test_no_promise_is_listed_twice() -> None:
    found = [match["id"] for match in PROMISE.finditer(promises())]
    assert sorted(found) == sorted(set(found))
    assert found


def test_a_ticked_promise_without_a_test_is_reported() -> None:
    text = "- [x] D1 Stored first.\n- [x] D2 One query.\n- [ ] C1 Once.\n"
    assert untested(text, {"D1"}) == ["D2"]


def test_a_requirement_without_a_promise_is_reported() -> None:
    assert unknown("- [x] D1 Stored first.\n- [ ] C1 Once.\n", {"D1", "C1", "Z9"}) == ["Z9"]


def test_requirements_are_read_from_decorators_and_modules() -> None:
    text = """
pytestmark = pytest.mark.requirement("D1")
@pytest.mark.requirement("D2", "D3")
async def test_it(): "D4"
"""
    assert set(marks(text)) == {"D1", "D2", "D3"}


def untested(text: str, tested: set[str]) -> list[str]:
    kept = {match["id"] for match in PROMISE.finditer(text) if match["tick"] == "x"}
    return sorted(kept - tested)


def unknown(text: str, tested: set[str]) -> list[str]:
    return sorted(tested - {match["id"] for match in PROMISE.finditer(text)})


def promises() -> str:
    return (PROJECT / "docs" / "promises.md").read_text()


@cache
def requirements() -> set[str]:
    folders = (PROJECT / "tests", PROJECT / "birthday" / "tests")
    files = [file for folder in folders for file in folder.rglob("*.py")]
    return {identifier for file in files for identifier in marks(file.read_text())}


def marks(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.requirement":
            yield from (ast.literal_eval(argument) for argument in node.args)
