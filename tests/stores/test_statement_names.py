"""Every statement that is named in Python exists in both dialects."""

import ast
from collections.abc import Iterator
from pathlib import Path

from duly.stores.statements import statements

STORES = Path(__file__).parents[2] / "src" / "duly" / "stores"
STEMS = {name.partition(".")[0] for name in statements("postgres")}


def test_every_statement_named_in_python_exists_in_both_dialects() -> None:
    named = {name for path in STORES.rglob("*.py") for name in names_in(path.read_text())}
    assert len(named) > 100
    assert named <= statements("postgres").keys() & statements("sqlite").keys()


def names_in(text: str) -> Iterator[str]:
    """Strings that look like the name of a statement."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            stem, _, name = node.value.partition(".")
            if stem in STEMS and name.isidentifier():
                yield node.value
