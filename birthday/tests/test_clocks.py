"""Greetings at nine local time on the birthday, in every zone and through clock changes."""

import os
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birthday.tests.people import Service
from duly.domain.schedules.planning import Planning
from duly.domain.schedules.schedule import ScheduleProgress, ScheduleTiming
from duly.domain.time import zones
from duly_birthday.greetings.birthday import Birthday
from duly_birthday.greetings.greetings import Greetings
from duly_birthday.service import BirthdayApp
from duly_birthday.settings import manner_of
from duly_birthday.users.events import Person

pytestmark = pytest.mark.requirement("B2")


@pytest.mark.parametrize(
    ("born", "zone", "now", "due"),
    [
        ("1990-11-15", "Asia/Kathmandu", "2026-08-01T00:00", "2026-11-15T03:15"),
        ("1990-11-15", "America/New_York", "2026-08-01T00:00", "2026-11-15T14:00"),
        # The clocks of New York go forward on 8 March 2026 and back on 1 November.
        ("1990-03-07", "America/New_York", "2026-01-01T00:00", "2026-03-07T14:00"),
        ("1990-03-08", "America/New_York", "2026-01-01T00:00", "2026-03-08T13:00"),
        ("1990-11-01", "America/New_York", "2026-01-01T00:00", "2026-11-01T14:00"),
        ("1990-10-31", "America/New_York", "2026-01-01T00:00", "2026-10-31T13:00"),
        # Today, just before nine, at nine, and after it.
        ("1990-08-01", "Europe/Oslo", "2026-08-01T06:59:59", "2026-08-01T07:00"),
        ("1990-08-01", "Europe/Oslo", "2026-08-01T07:00", "2027-08-01T07:00"),
        ("1990-08-01", "Europe/Oslo", "2026-08-01T07:01", "2027-08-01T07:00"),
        # In UTC it is still the old year, or already the new one.
        ("1990-01-01", "Pacific/Kiritimati", "2026-12-31T18:00", "2026-12-31T19:00"),
        ("1990-12-31", "Pacific/Pago_Pago", "2027-01-01T00:00", "2027-12-31T20:00"),
        ("2000-02-29", "Europe/Oslo", "2026-01-01T00:00", "2026-02-28T08:00"),
        ("2000-02-29", "Europe/Oslo", "2028-01-01T00:00", "2028-02-29T08:00"),
    ],
)
async def test_the_next_greeting_is_at_nine_on_the_birthday(
    small_service: Service, born: str, zone: str, now: str, due: str
) -> None:
    small_service.app.clock.step(  # type: ignore[attr-defined]
        datetime.fromisoformat(now).replace(tzinfo=UTC) - small_service.app.clock.now()
    )
    event = (await small_service.register(dateOfBirth=born, timezone=zone))["nextBirthdayEvent"]
    assert event["dueAt"].removesuffix("Z") == f"{due}:00"
    assert event["localTime"][10:] == "T09:00:00"


@pytest.mark.parametrize(
    ("policy", "days"),
    [
        ("feb28", ["2027-02-28", "2028-02-29", "2029-02-28"]),
        ("mar1", ["2027-03-01", "2028-02-29", "2029-03-01"]),
        ("skip", ["2028-02-29", "2032-02-29"]),
        (None, ["2027-02-28", "2028-02-29", "2029-02-28"]),
    ],
)
async def test_a_29_february_follows_its_policy_year_after_year(
    service: Service, policy: str | None, days: list[str]
) -> None:
    id = (await service.register(dateOfBirth="2000-02-29", timezone="UTC", feb29=policy))["user"][
        "id"
    ]
    for number, day in enumerate(days):
        assert (await service.show(id))["nextBirthdayEvent"]["localTime"] == f"{day}T09:00:00"
        service.go_to(datetime.fromisoformat(f"{day}T09:00Z"))
        assert await service.run() == 1
        assert len(await service.greetings()) == number + 1


def test_the_hour_and_the_policy_can_be_set(tmp_path: object) -> None:
    environment = {"BIRTHDAY_TIME": "18:30", "BIRTHDAY_FEB29": "mar1"}
    app = BirthdayApp(f"sqlite:///{tmp_path}/x.db", environment=environment)
    assert (app.manner.at.isoformat(), app.manner.feb29) == ("18:30:00", "mar1")
    assert manner_of({"BIRTHDAY_TIME": "09:00:30"}, [Birthday()]).at.isoformat() == "09:00:30"
    for wrong in ("9", "24:00", "09:60", "09:00:60", "09:00:3", "nine"):
        with pytest.raises(Exception, match="BIRTHDAY_TIME"):
            manner_of({"BIRTHDAY_TIME": wrong}, [Birthday()])
    with pytest.raises(Exception, match="BIRTHDAY_FEB29"):
        manner_of({"BIRTHDAY_FEB29": "never"}, [Birthday()])
    with pytest.raises(Exception, match="BIRTHDAY_WEBHOOK_URL"):
        manner_of({"BIRTHDAY_WEBHOOK_URL": "ftp://x"}, [Birthday()])


def by_hand(born: date, zone: ZoneInfo, now: datetime) -> datetime:
    """The next nine o'clock of a birthday, found by checking day after day.

    It does not compute with UTC years or wall times: it checks what a local clock shows, minute
    by minute.
    """
    day = now.astimezone(zone).date()
    while True:
        if is_birthday(born, day):
            found = nine(day, zone)
            if found > now:
                return found
        day += timedelta(days=1)


def is_birthday(born: date, day: date) -> bool:
    if (born.month, born.day) != (2, 29):
        return (born.month, born.day) == (day.month, day.day)
    tomorrow = day + timedelta(days=1)
    return day.month == 2 and tomorrow.month == 3


def nine(day: date, zone: ZoneInfo) -> datetime:
    """The first moment at which a local clock shows nine or later on that day."""
    moment = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(hours=6)
    while True:
        local = moment.astimezone(zone)
        if (local.date(), local.hour) >= (day, 9):
            return moment
        moment += timedelta(minutes=1 if local.date() >= day and local.hour >= 8 else 15)


ZONES = sorted(zones.names())
MOMENTS = st.integers(0, 30 * 366 * 86_400).map(
    lambda each: datetime(2007, 1, 1, tzinfo=UTC) + timedelta(seconds=each)
)
EXAMPLES = int(os.environ.get("DULY_BIRTHDAY_ORACLE", "300"))


def next_birthday(born: date, zone: str, now: datetime) -> datetime:
    """The moment that the service computes."""
    person = Person(
        id="x", first_name="A", last_name="B", date_of_birth=born, timezone=zone, feb29=None,
        since=now,
    )  # fmt: skip
    ((_, rule, *_),) = Greetings(None, manner_of({}, [Birthday()]))._items(person)  # type: ignore[arg-type]
    timing = ScheduleTiming(rule=rule)
    plan = Planning("x", timing, ScheduleProgress(fired_at=now), now, lambda: "id").plan(
        untouched=False
    )
    (made,) = plan.make
    return made.due_at


@settings(max_examples=EXAMPLES)
@given(st.dates(date(1900, 1, 1), date(2026, 12, 31)), st.sampled_from(ZONES), MOMENTS)
def test_the_service_agrees_with_a_search_day_by_day(born: date, zone: str, now: datetime) -> None:
    assert next_birthday(born, zone, now) == by_hand(born, zones.zone(zone), now)
