"""A user's program with handlers, as type checkers see it."""

from pathlib import Path

import pytest

from tests.support.type_checkers import (
    assert_mypy_refuses_only_wrong_lines,
    assert_pyright_refuses_only_wrong_lines,
)

pytestmark = pytest.mark.requirement("P1")


PROGRAM = """
from datetime import date
from typing import assert_type

import duly

app = duly.App()


@app.handler
async def weekly(team: int, since: date, *, dry_run: bool = False) -> str:
    return f"{team} since {since}"


@app.handler("charge", timeout=5)
def charge(delivery: duly.Delivery, order: int) -> int:
    return order


@app.handler("ship")
async def ship(delivery: duly.Delivery[list[int]]) -> None: ...


@app.schedule(duly.every("1h"))
@app.handler
async def sweep() -> None: ...


async def right() -> None:
    assert_type(await weekly(7, date(2026, 11, 1)), str)
    handle = await weekly.deliver(7, since=date(2026, 11, 1))
    assert_type(handle, duly.Handle[str])
    assert_type(await handle.result(timeout=5), str)
    assert_type(await weekly.using(after=30).deliver(7, date(2026, 11, 1)), duly.Handle[str])
    await weekly.using(after=30, key="k", stream="team:7").deliver(7, date(2026, 11, 1))
    await weekly.deliver_many(weekly.item(n, date(2026, 11, 1), dry_run=True) for n in (1, 2))
    assert_type(await charge.deliver(12), duly.Handle[int])
    await ship.deliver([1, 2])
    await sweep.deliver()
    await app.deliver(weekly, {"team": 7})
    await app.list(target=weekly)
    await app.schedule("daily", duly.every("1d"), weekly, {"team": 7})


async def wrong() -> None:
    await weekly.deliver("7", since=date(2026, 11, 1))  # wrong
    await weekly.deliver(7)  # wrong
    await weekly.deliver(7, date(2026, 11, 1), True)  # wrong
    await weekly.deliver(7, date(2026, 11, 1), dry=True)  # wrong
    await weekly.using(afer=30).deliver(7, date(2026, 11, 1))  # wrong
    weekly.item(7)  # wrong
    await weekly(7)  # wrong
    await charge.deliver()  # wrong
    await charge.deliver("12")  # wrong
    await ship.deliver(["1"])  # wrong
    await ship.deliver()  # wrong
    await sweep.deliver(1)  # wrong
"""


@pytest.mark.long
def test_mypy_accepts_right_calls_and_refuses_wrong_ones(tmp_path: Path) -> None:
    assert_mypy_refuses_only_wrong_lines(PROGRAM, tmp_path)


@pytest.mark.clients
def test_pyright_accepts_right_calls_and_refuses_wrong_ones(tmp_path: Path) -> None:
    assert_pyright_refuses_only_wrong_lines(PROGRAM, tmp_path)
