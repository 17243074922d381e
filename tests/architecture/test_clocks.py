"""The engine decides by the store's clock, never by the clock of the machine."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "duly"
FILES = (*(SOURCE / "engine").rglob("*.py"), SOURCE / "services/deliveries/acceptor.py")

ALLOWED = {
    (
        "store_clock.py",
        "__init__",
    ): "a virtual clock is the store's too; and the real one until the "
    "time of the store is known, before anything runs",
    ("acceptor.py", "__init__"): "whether to wake somebody for a moment that a caller named",
}


@pytest.mark.requirement("D7")
def test_the_engine_uses_the_machines_clock_only_where_allowed() -> None:
    found = {
        (path.name, function) for path in FILES for function in wall_clock_uses(path.read_text())
    }
    assert found == ALLOWED.keys()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(self):\n    self._clock.now()", ["f"]),
        ("def f(self):\n    self._by.clock.now() + x", ["f"]),
        ("def f(clock):\n    return Thing(clock.now)", ["f"]),
        ("class A:\n    async def f(self):\n        await g(self.clock.now())", ["f"]),
        ("def f(self):\n    self._by.now(), self.clock.monotonic(), now()", []),
    ],
)
def test_each_way_to_use_it_is_reported(text: str, expected: list[str]) -> None:
    assert list(wall_clock_uses(text)) == expected


def wall_clock_uses(text: str) -> Iterator[str]:
    """The functions in which a clock's `now` is called or passed on."""
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (
                function.name
                for node in ast.walk(function)
                if isinstance(node, ast.Attribute) and node.attr == "now" and is_clock(node.value)
            )


def is_clock(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name.lstrip("_") == "clock"
