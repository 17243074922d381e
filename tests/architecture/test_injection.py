"""Time, randomness, ids and sockets come from one file and are passed to the rest."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "src", ROOT / "birthday" / "src")

FORBIDDEN_MODULES = {"random", "secrets", "socket"}
FORBIDDEN_NAMES = {
    "asyncio.sleep",
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "os.urandom",
    "time.monotonic",
    "time.monotonic_ns",
    "time.perf_counter",
    "time.perf_counter_ns",
    "time.sleep",
    "time.time",
    "time.time_ns",
    "uuid.uuid1",
    "uuid.uuid4",
}
# A failpoint that sleeps has to block, like the fault it simulates.
ALLOWED = {"duly/failpoints.py": {"time.sleep", "asyncio.sleep"}}
EXEMPT = "duly/system.py"


def test_only_the_system_module_uses_clock_randomness_and_sockets() -> None:
    found = [
        f"{file}:{line} {name}"
        for source in SOURCES
        for path in sorted(source.rglob("*.py"))
        if (file := str(path.relative_to(source))) != EXEMPT
        for line, name in forbidden_uses(path.read_text())
        if name not in ALLOWED.get(file, set())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import time\ntime.time()", [(2, "time.time")]),
        ("import time as t\nt.sleep(1)", [(2, "time.sleep")]),
        ("from time import monotonic", [(1, "time.monotonic")]),
        ("from time import monotonic as now\nnow()", [(1, "time.monotonic")]),
        ("import datetime\ndatetime.datetime.now()", [(2, "datetime.datetime.now")]),
        ("from datetime import datetime as d\nd.utcnow", [(2, "datetime.datetime.utcnow")]),
        ("from datetime import date\ndate.today()", [(2, "datetime.date.today")]),
        ("import asyncio\nsleep = asyncio.sleep", [(2, "asyncio.sleep")]),
        ("import os.path\nos.urandom(8)", [(2, "os.urandom")]),
        ("def f():\n    from uuid import uuid4", [(2, "uuid.uuid4")]),
        ("import random", [(1, "random")]),
        ("from secrets import token_hex", [(1, "secrets.token_hex")]),
        ("import socket as s", [(1, "socket")]),
    ],
)
def test_each_way_to_reach_them_is_reported(text: str, expected: list[tuple[int, str]]) -> None:
    assert list(forbidden_uses(text)) == expected


def test_injected_values_are_not_reported() -> None:
    text = """
import asyncio, time, uuid
from datetime import datetime
async def tick(clock, random, identity: uuid.UUID):
    random.random()
    await clock.sleep(1)
    await asyncio.wait_for(clock.now(), 1)
    return datetime.fromisoformat("2026-01-01"), time.struct_time
"""
    assert list(forbidden_uses(text)) == []


def forbidden_uses(text: str) -> Iterator[tuple[int, str]]:
    """Where a forbidden name is imported, or used through its module."""
    tree = ast.parse(text)
    nodes = sorted(
        (node for node in ast.walk(tree) if hasattr(node, "lineno")), key=lambda node: node.lineno
    )
    meanings: dict[str, str] = {}
    for node in nodes:
        for local, meaning in imported(node):
            meanings[local] = meaning
            if is_forbidden(meaning):
                yield node.lineno, meaning
    for node in nodes:
        if isinstance(node, ast.Attribute):
            meaning = resolve(node, meanings)
            if meaning in FORBIDDEN_NAMES:
                yield node.lineno, meaning


def imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Each name that an import binds, with its full name."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.split(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (top, top)
    elif isinstance(node, ast.ImportFrom) and node.level == 0:
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def is_forbidden(meaning: str) -> bool:
    return meaning in FORBIDDEN_NAMES or meaning.split(".")[0] in FORBIDDEN_MODULES


def resolve(node: ast.expr, meanings: dict[str, str]) -> str:
    match node:
        case ast.Name(id=name):
            return meanings.get(name, "")
        case ast.Attribute(value=value, attr=attribute):
            return f"{resolve(value, meanings)}.{attribute}"
        case _:
            return ""
