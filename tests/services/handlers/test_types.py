"""A user's program with handlers, as type checkers see it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.requirement("P1"), pytest.mark.long]

PROGRAM = """
from datetime import date
from typing import assert_type

import duly

app = duly.App()


@app.handler
async def weekly(team: int, since: date, *, dry_run: bool = False) -> str:
    return f"{team} since {since}"


@app.handler("charge", timeout=5)
def charge(delivery: duly.Delivery, order: int) -> None: ...


@app.handler("ship")
async def ship(delivery: duly.Delivery[list[int]]) -> None: ...


@app.schedule(duly.every("1h"))
@app.handler
async def sweep() -> None: ...


async def right() -> None:
    assert_type(await weekly(7, date(2026, 11, 1)), str)
    assert_type(await weekly.deliver(7, since=date(2026, 11, 1)), duly.Accepted)
    await weekly.using(after=30, key="k", stream="team:7").deliver(7, date(2026, 11, 1))
    await weekly.deliver_many(weekly.item(n, date(2026, 11, 1), dry_run=True) for n in (1, 2))
    await charge.deliver(12)
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


def test_mypy_accepts_right_calls_and_refuses_wrong_ones(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", tmp_path / "c",
         program],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = {int(number) for number in re.findall(r"program\.py:(\d+): error", done.stdout)}
    expected = {
        number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")
    }
    assert found == expected, done.stdout + done.stderr
