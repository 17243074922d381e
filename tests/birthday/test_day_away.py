"""A day of outage with birthdays in it, and kill -9 on the way back: everybody is greeted once."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.request import urlopen

import pytest

from duly.testing import VirtualClock
from duly_birthday.service import BirthdayApp
from duly_birthday.wire import Birthdays
from tests.crash.fleet import QUICK
from tests.crash.receiver import Receiver
from tests.support.forks import ROOT, start

PEOPLE = int(os.environ.get("DULY_BIRTHDAY_DOWN", "60"))
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


def serve(environment: dict[str, str], failpoints: str = "") -> subprocess.Popen[Any]:
    environment = {**os.environ, **environment, "DULY_FAILPOINTS": failpoints}
    command = ("duly", "serve", "duly_birthday:app", "--port", "0")
    return start(*command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)


def story(process: subprocess.Popen[Any], until: str) -> list[dict[str, Any]]:
    """What the log tells, up to an event."""
    assert process.stderr is not None
    told: list[dict[str, Any]] = []
    for line in process.stderr:
        told.append(json.loads(line))
        if told[-1].get("event") == until:
            return told
    raise AssertionError(f"it ended without {until}: {told[-3:]}")


@pytest.mark.requirement("B5", "C1", "C3")
async def test_a_day_away_greets_everybody_once_though_killed_twice(
    database_url: str, there: Receiver
) -> None:
    now = datetime.now(UTC)
    due = now - HALF
    environment = surroundings(database_url, there, due)
    ids = await register(environment, due, VirtualClock(now - DAY))
    for place in (f"webhook.answered=kill@{PEOPLE // 4}", f"webhook.sent=kill@{PEOPLE // 4}"):
        killed = serve(environment, place)
        assert killed.stderr is not None
        killed.stderr.read()
        assert killed.wait(60) == -9, f"{place} was never reached"
    last = serve(environment)
    told = story(last, "RecoveryEnded")
    (serving,) = story_of(told, "Serving") or story(last, "Serving")[-1:]
    assert health(serving["url"])["recovering"] is None
    last.terminate()
    assert last.stderr is not None
    last.stderr.read()
    assert last.wait(30) == 0
    assert story_of(told, "RecoveryBegan")
    check(there, ids)


def health(url: str) -> dict[str, Any]:
    with urlopen(f"{url}/health?verbose=true", timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def story_of(told: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [each for each in told if each.get("event") == event]


def check(there: Receiver, ids: set[str]) -> None:
    """Everybody once, by the key that a receiver honours; again on the wire what was cut off."""
    by_key = {each.id: json.loads(each.body) for each in there.taken}
    assert Counter(each["userId"] for each in by_key.values()) == Counter(ids)
    assert all(each.keys == {each.id} for each in there.taken)
    assert len(there.taken) - len(by_key) <= 2 * CONCURRENCY
