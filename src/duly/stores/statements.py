"""Named SQL statements, read from a pair of files for each subject, one for each dialect.

Both dialects write parameters as `:name` and tables as `duly.name`. SQLite has no schemas, so
`duly.name` becomes `duly_name`; PostgreSQL numbers its parameters, so `:name` becomes `$1`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

Dialect = Literal["postgres", "sqlite"]
PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
WRITES = re.compile(r"(?:\A|;)\s*(?:insert|update|delete|with)\b")
PART = re.compile(r"\{([a-z_]+)\}")
LITERAL = re.compile(r"(?<![:\w]):([a-z_]+)::text::\w+\[\]")
"""An array sent in PostgreSQL's text form. asyncpg's encoding of arrays checks every element for
being an array itself, which costs more than all the rest."""


class Statement(msgspec.Struct, frozen=True):
    """One statement (or, on SQLite, several that run as one) and its parameters in order."""

    name: str
    text: str
    parameters: tuple[str, ...]
    literals: frozenset[str] = frozenset()
    writes: int = 1
    """The number of statements in it that write."""


class Migration(msgspec.Struct, frozen=True):
    """One numbered step of the schema."""

    number: int
    name: str
    text: str


@cache
def statements(dialect: Dialect) -> dict[str, Statement]:
    """Every statement of a dialect, by `file.name`."""
    folder = files(__package__) / "sql" / dialect
    found: dict[str, Statement] = {}
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        if file.name.endswith(".sql"):
            stem = file.name.removesuffix(".sql")
            for name, text in _split(file.read_text()).items():
                found[f"{stem}.{name}"] = _statement(dialect, f"{stem}.{name}", text)
    return found


def _split(text: str) -> dict[str, str]:
    """The statements of a file; one that others include by `{name}` is not a statement itself."""
    pieces = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    found = dict(zip(pieces[1::2], (piece.strip() for piece in pieces[2::2]), strict=True))
    parts = set(PART.findall(text))
    return {name: _whole(piece, found) for name, piece in found.items() if name not in parts}


def _whole(piece: str, found: Mapping[str, str]) -> str:
    """A statement with the parts that it includes, and the parts of these."""
    return PART.sub(lambda part: _whole(_code(found[part[1]]), found), piece)


def _statement(dialect: Dialect, name: str, text: str) -> Statement:
    names = tuple(dict.fromkeys(PARAMETER.findall(_code(text))))
    literals = frozenset(LITERAL.findall(text))
    writes = len(WRITES.findall(_code(text)))
    return Statement(name, _in_dialect(dialect, text, names), names, literals, writes)


def _code(text: str) -> str:
    return re.sub(r"--.*", "", text)


def _in_dialect(dialect: Dialect, text: str, names: tuple[str, ...]) -> str:
    if dialect == "sqlite":
        return _code(text).replace("duly.", "duly_")
    return PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", _code(text)).rstrip("; \n")


@cache
def migrations(dialect: Dialect) -> tuple[Migration, ...]:
    """Every migration of a dialect, in order."""
    folder = files(__package__) / "sql" / dialect / "migrations"
    found = []
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        number, _, name = file.name.removesuffix(".sql").partition("_")
        text = file.read_text()
        if dialect == "sqlite":
            text = text.replace("duly.", "duly_")
        found.append(Migration(int(number), name, text))
    return tuple(found)
