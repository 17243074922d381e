"""A day of outage with birthdays in it, and kill -9 on the way back: everybody is greeted once."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duly.testing import VirtualClock
from duly_birthday.service import BirthdayApp
from duly_birthday.wire import Birthdays
from tests.crash.fleet import QUICK
from tests.crash.receiver import Receiver
from tests.support.forks import ROOT, start

pytestmark = pytest.mark.long

PEOPLE = int(os.environ.get("DULY_BIRTHDAY_DOWN", "60"))
MANY = 10_000
"""Fewer are sent before anybody looks, every five seconds, how late webhooks are."""
CONCURRENCY = 8
DAY, HALF = timedelta(days=1), timedelta(hours=12)


@pytest.fixture
def there() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def surroundings(database: str, there: Receiver, due: datetime) -> dict[str, str]:
    """The settings under which greetings go to the receiver at the hour that was missed."""
    return QUICK | {
        "DULY_DATABASE": database,
        "DULY_CONCURRENCY": str(CONCURRENCY),
        "DULY_EGRESS_ALLOW": "127.0.0.1/32",
        "DULY_WEBHOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "BIRTHDAY_WEBHOOK_URL": there.url,
        "BIRTHDAY_TIME": f"{due:%H:%M}",
    }


async def register(environment: dict[str, str], due: datetime, clock: VirtualClock) -> set[str]:
    """People whose birthday came while nobody was there."""
    born, database = f"2000-{due:%m-%d}", environment["DULY_DATABASE"]
    async with BirthdayApp(database, clock=clock, environment=environment) as app:
        person = {"lastName": "Lee", "dateOfBirth": born, "timezone": "UTC"}
        people = [person | {"firstName": f"A{n}"} for n in range(PEOPLE)]
        taken = await Birthdays(app, app.manner).register_many(people)
    return {each.id for each in taken.created}


def serve(environment: dict[str, str], log: Path, failpoints: str = "") -> subprocess.Popen[Any]:
    environment = {**os.environ, **environment, "DULY_FAILPOINTS": failpoints}
    command = ("duly", "serve", "duly_birthday:app", "--port", "0")
    with log.open("w") as file:
        return start(*command, cwd=ROOT, env=environment, stderr=file)


@pytest.mark.requirement("B5", "C1", "C3")
async def test_a_day_away_greets_everybody_once_though_killed_twice(
    database_url: str, there: Receiver, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    due, log = now - HALF, tmp_path / "log"
    environment = surroundings(database_url, there, due)
    ids = await register(environment, due, VirtualClock(now - DAY))
    for place in (f"webhook.answered=kill@{PEOPLE // 4}", f"webhook.sent=kill@{PEOPLE // 4}"):
        killed = serve(environment, log, place)
        assert killed.wait(100) == -9, f"{place} was never reached: {log.read_text()}"
    last = serve(environment, log)
    try:
        there.wait_for_ids(PEOPLE, within=100)
        if PEOPLE >= MANY:
            wait_for_events(log, {"RecoveryBegan", "RecoveryEnded"})
    finally:
        last.terminate()
    assert last.wait(30) == 0
    check(there, ids)


def wait_for_events(log: Path, wanted: set[str]) -> None:
    """Wait until the log tells of all of them."""
    deadline, told = time.monotonic() + 30, set[str]()
    while not wanted <= told:
        assert time.monotonic() < deadline, f"only told: {told}"
        threading.Event().wait(0.05)
        whole = log.read_text().rpartition("\n")[0]
        told = {json.loads(line).get("event") for line in whole.splitlines()}


def check(there: Receiver, ids: set[str]) -> None:
    """Everybody once, by the key that a receiver honours; again on the wire what was cut off."""
    by_key = {each.id: json.loads(each.body) for each in there.taken}
    assert Counter(each["userId"] for each in by_key.values()) == Counter(ids)
    assert all(each.keys == {each.id} for each in there.taken)
    # Each of two kills cuts off what is under way, and what is answered but not yet on the books.
    assert len(there.taken) - len(by_key) <= 2 * (CONCURRENCY + CONCURRENCY)
