"""A day of outage with birthdays, and kill -9 during recovery: everybody is greeted once."""

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
"""With fewer people all are sent before the first check for late webhooks."""
CONCURRENCY = 8
DAY, HALF = timedelta(days=1), timedelta(hours=12)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def environment_for(database: str, receiver: Receiver, due: datetime) -> dict[str, str]:
    """Settings that send greetings to the receiver at the missed hour."""
    return QUICK | {
        "DULY_DATABASE": database,
        "DULY_CONCURRENCY": str(CONCURRENCY),
        "DULY_EGRESS_ALLOW": "127.0.0.1/32",
        "DULY_WEBHOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "BIRTHDAY_WEBHOOK_URL": receiver.url,
        "BIRTHDAY_TIME": f"{due:%H:%M}",
    }


async def register(environment: dict[str, str], due: datetime, clock: VirtualClock) -> set[str]:
    """Register people whose birthday was during the outage."""
    born, database = f"2000-{due:%m-%d}", environment["DULY_DATABASE"]
    async with BirthdayApp(database, clock=clock, environment=environment) as app:
        person = {"lastName": "Lee", "dateOfBirth": born, "timezone": "UTC"}
        people = [person | {"firstName": f"A{n}"} for n in range(PEOPLE)]
        received = await Birthdays(app, app.manner).register_many(people)
    return {each.id for each in received.created}


def serve(environment: dict[str, str], log: Path, failpoints: str = "") -> subprocess.Popen[Any]:
    environment = {**os.environ, **environment, "DULY_FAILPOINTS": failpoints}
    command = ("duly", "serve", "duly_birthday:app", "--port", "0")
    with log.open("w") as file:
        return start(*command, cwd=ROOT, env=environment, stderr=file)


@pytest.mark.requirement("B5", "C1", "C3")
async def test_after_a_day_of_outage_and_two_kills_everybody_is_greeted_once(
    database_url: str, receiver: Receiver, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    due, log = now - HALF, tmp_path / "log"
    environment = environment_for(database_url, receiver, due)
    ids = await register(environment, due, VirtualClock(now - DAY))
    place = f"webhook.answered=kill@{PEOPLE // 4}"
    for _ in range(2):
        killed = serve(environment, log, place)
        assert killed.wait(100) == -9, f"{place} was never reached: {log.read_text()}"
    last = serve(environment, log)
    try:
        receiver.wait_for_ids(PEOPLE, within=100)
        if PEOPLE >= MANY:
            wait_for_events(log, {"RecoveryBegan", "RecoveryEnded"})
    finally:
        last.terminate()
    assert last.wait(30) == 0
    check(receiver, ids)


def wait_for_events(log: Path, wanted: set[str]) -> None:
    """Wait until the log has all these events."""
    deadline, logged = time.monotonic() + 30, set[str]()
    while not wanted <= logged:
        assert time.monotonic() < deadline, f"only logged: {logged}"
        threading.Event().wait(0.05)
        whole = log.read_text().rpartition("\n")[0]
        logged = {json.loads(line).get("event") for line in whole.splitlines()}


def check(receiver: Receiver, ids: set[str]) -> None:
    """Everybody once by the idempotency key; only interrupted requests were repeated."""
    by_key = {each.id: json.loads(each.body) for each in receiver.received}
    assert Counter(each["userId"] for each in by_key.values()) == Counter(ids)
    assert all(each.keys == {each.id} for each in receiver.received)
    # Each of two kills interrupts running requests, and those answered but not yet settled.
    assert len(receiver.received) - len(by_key) <= 2 * (CONCURRENCY + CONCURRENCY)
