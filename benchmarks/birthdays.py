"""A million people imported while a server works, and fifty thousand birthdays at one moment.

python -m benchmarks.birthdays [--people 1000000] [--burst 50000] [--store postgresql|sqlite]
"""

import argparse
import asyncio
import io
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from statistics import quantiles
from typing import Any

import uvloop

from benchmarks.api.callers import post_request, trickle
from benchmarks.api.servers import running
from benchmarks.places import ROOT, folder, fresh, server
from duly_birthday.__main__ import POLITE
from duly_birthday.importing import import_people
from duly_birthday.service import BirthdayApp
from duly_birthday.wire import Birthdays

RATE, PIECE_SECONDS = 50, 2.0
ZONES = ("Europe/Oslo", "America/New_York", "Asia/Kathmandu", "Asia/Tokyo", "UTC")
HEADER = "firstName,lastName,dateOfBirth,timezone\n"
ANN = {"firstName": "Ann", "lastName": "Lee", "dateOfBirth": "1990-11-15", "timezone": "UTC"}


class GeneratedFile(io.TextIOBase):
    """A file of people that is generated while it is read."""

    def __init__(self, people: Iterator[str]) -> None:
        self._people = people

    def readline(self, *_: Any) -> str:
        return next(self._people, "")

    def __next__(self) -> str:
        return next(self._people)


def other_birthdays(count: int) -> Iterator[str]:
    """People born on any day except today, in several zones."""
    yield HEADER
    today = datetime.now(UTC).date()
    for n in range(count):
        born = date(1990, 1, 1) + timedelta(days=n % 365)
        if abs((born.replace(year=today.year) - today).days) <= 1:
            born += timedelta(days=10)
        yield f"A{n},Lee,{born},{ZONES[n % len(ZONES)]}\n"


def born_today(count: int) -> Iterator[str]:
    """People with the same birthday and the same zone."""
    yield HEADER
    today = datetime.now(UTC).date()
    for n in range(count):
        yield f"B{n},Lee,2000-{today:%m-%d},UTC\n"


async def imported(database: str, people: Iterator[str], at: str = "09:00") -> float:
    """Import them; returns the seconds it took."""
    async with BirthdayApp(database, environment={"BIRTHDAY_TIME": at}) as app:
        began = time.perf_counter()
        await import_people(
            Birthdays(app, app.manner), GeneratedFile(people), _refused, lambda _: None  # type: ignore[arg-type]
        )  # fmt: skip
        return time.perf_counter() - began


def _refused(number: int, reason: str) -> None:
    raise RuntimeError(f"line {number}: {reason}")


async def measure_during(
    url: str, import_: asyncio.subprocess.Process
) -> tuple[list[float], float]:
    """How long registering a person takes during an import, and how long the import takes."""
    waits: list[float] = []
    began = time.perf_counter()
    ended = asyncio.create_task(_ended(import_))
    while not ended.done():
        waits += [
            wait for _, wait in await trickle(url, post_request("/user", ANN), RATE, PIECE_SECONDS)
        ]
    return waits, ended.result() - began


async def _ended(import_: asyncio.subprocess.Process) -> float:
    if await import_.wait():
        raise RuntimeError("the import failed")
    return time.perf_counter()


async def late_by(app: BirthdayApp, due: datetime, count: int) -> list[float]:
    """How late each greeting of the burst started, after all of them have ended."""
    table = "duly_deliveries" if app.store.single_owner else "duly.deliveries"
    moment: Any = round(due.timestamp() * 1e6) if app.store.single_owner else due
    while True:
        async with app.transaction() as tx:
            rows = await tx.fetch(
                f"select started_at from {table} where due_at = $1 and state = 'completed'", moment
            )
        if len(rows) >= count:
            return sorted(_seconds(row[0], due) for row in rows)
        await asyncio.sleep(1)


def _seconds(started: Any, due: datetime) -> float:
    if isinstance(started, datetime):
        return (started - due).total_seconds()
    return float(started / 1e6 - due.timestamp())


async def measured(kind: str, people: int, burst: int) -> None:
    """Print the results of one store."""
    with server() as postgres, folder() as place:
        database = await fresh(kind, postgres, place)
        async with BirthdayApp(database, environment={}):
            pass
        serve = ("duly", "serve", "benchmarks.birthday_served:app", "--port", "0")
        with running(*serve, "--database", database) as served:
            command = [sys.executable, "-m", "benchmarks.birthdays", "--import-into", database]
            import_ = await asyncio.create_subprocess_exec(
                *command, "--people", str(people), cwd=ROOT
            )
            waits, took = await measure_during(served.url, import_)
            due = await _burst(database, burst)
            async with BirthdayApp(database, environment={}) as app:
                late = await late_by(app, due, burst)
    p95 = quantiles(waits, n=20)[-1] * 1000
    print(
        f"{kind}: {people:,} people in {took:,.0f} s, {people / took:,.0f}/s; POST /user meanwhile "
        f"p95 {p95:.1f} ms (wanted: 50); {burst:,} birthdays at one moment: the last started after "
        f"{late[-1]:.1f} s (wanted: 60), half of them after {late[len(late) // 2]:.1f} s"
    )


async def _burst(database: str, burst: int) -> datetime:
    """Import people who are all due at the same future minute."""
    room = timedelta(seconds=30 + burst / 1000)
    due = (datetime.now(UTC) + room).replace(second=0, microsecond=0) + timedelta(minutes=1)
    await imported(database, born_today(burst), f"{due:%H:%M}")
    if datetime.now(UTC) > due:
        raise RuntimeError("the burst was not imported before it was due; run it again")
    return due


def main() -> None:
    """Read the flags and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--burst", type=int, default=50_000)
    parser.add_argument("--store", choices=["postgresql", "sqlite"])
    parser.add_argument("--import-into", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.import_into:
        os.nice(POLITE)
        uvloop.run(imported(given.import_into, other_birthdays(given.people)))
        return
    for kind in [given.store] if given.store else ["postgresql", "sqlite"]:
        uvloop.run(measured(kind, given.people, given.burst))


if __name__ == "__main__":
    main()
