"""Greetings on business days: one for each year, also around new year and after edits."""

from datetime import UTC, date, datetime, timedelta

import pytest

from birthday.tests.conftest import serving
from birthday.tests.people import Service
from duly import App
from duly.errors import BadSetting
from duly.testing import VirtualClock
from duly_birthday.greetings.birthday import Birthday
from duly_birthday.settings import manner_of
from duly_birthday.wire import Birthdays

pytestmark = pytest.mark.requirement("L6")
UTC_ZONE = {"timezone": "UTC"}
CLOSED = {date(2026, 12, 31): "Inventory", date(2027, 1, 1): "New year"}


async def set_days(url: str, clock: VirtualClock, **days: object) -> None:
    async with App(url, clock=clock, environment={}) as app:
        await app.calendars.set("office", days.pop("closed", CLOSED), **days)  # type: ignore[arg-type]


def settings(move: str) -> dict[str, str]:
    return {"BIRTHDAY_CALENDAR": "office", "BIRTHDAY_MOVE": move}


async def greeted(service: Service, id: str) -> list[tuple[str, datetime]]:
    """The local years and the moments of all greetings that were sent."""
    found = await service.app.list(schedule=f"birthday:{id}", state="completed")
    async with service.app.transaction() as tx:
        sql = "select id, occurrence from " + (
            "duly_deliveries" if service.app.store.single_owner else "duly.deliveries"
        )
        years = {str(row[0]): row[1] for row in await tx.fetch(sql)}
    return sorted((years[each.id], each.due_at) for each in found)


@pytest.mark.parametrize(
    ("move", "born", "expected"),
    [
        # Saturday, 8 August 2026.
        ("next", "1990-08-08", [("2026", (2026, 8, 10)), ("2027", (2027, 8, 9))]),
        ("previous", "1990-08-08", [("2026", (2026, 8, 7)), ("2027", (2027, 8, 6))]),
        ("skip", "1990-08-08", []),
        # 31 December 2026 and 1 January 2027 are closed, and then there is a weekend.
        ("next", "1990-12-31", [("2026", (2027, 1, 4)), ("2027", (2027, 12, 31))]),
        ("previous", "1990-01-01", [("2027", (2026, 12, 30)), ("2028", (2027, 12, 31))]),
        ("next", "1990-01-01", [("2027", (2027, 1, 4)), ("2028", (2028, 1, 3))]),
        # 28 February 2027 is a Sunday.
        ("next", "2000-02-29", [("2027", (2027, 3, 1)), ("2028", (2028, 2, 29))]),
    ],
)
async def test_each_year_is_greeted_once_on_a_business_day(
    sqlite_url: str,
    clock: VirtualClock,
    move: str,
    born: str,
    expected: list[tuple[str, tuple[int, int, int]]],
) -> None:
    await set_days(sqlite_url, clock)
    async with serving(sqlite_url, clock, settings(move)) as service:
        id = (await service.register(dateOfBirth=born, **UTC_ZONE))["user"]["id"]
        for moment in (
            datetime(2026, 8, 12, tzinfo=UTC),
            datetime(2026, 12, 30, 12, tzinfo=UTC),
            datetime(2027, 1, 2, tzinfo=UTC),
            datetime(2027, 1, 6, tzinfo=UTC),
            datetime(2027, 3, 5, tzinfo=UTC),
            datetime(2027, 8, 12, tzinfo=UTC),
            datetime(2028, 1, 5, tzinfo=UTC),
            datetime(2028, 3, 5, tzinfo=UTC),
        ):
            service.go_to(moment)
            await service.run()
        wanted = [(year, datetime(*day, 9, tzinfo=UTC)) for year, day in expected]
        assert await greeted(service, id) == wanted


async def test_a_calendar_can_be_set_edited_and_left_for_people_who_exist(
    database_url: str, clock: VirtualClock
) -> None:
    async with serving(database_url, clock) as service:
        id = (await service.register(dateOfBirth="1990-08-08", **UTC_ZONE))["user"]["id"]
    await set_days(database_url, clock)

    async def next_greeting(environment: dict[str, str]) -> str:
        async with serving(database_url, clock, environment) as service:
            await Birthdays(service.app, service.app.manner).replan(None)
            shown = await service.show(id)
        moment: str = shown["nextBirthdayEvent"]["dueAt"]
        return moment

    assert await next_greeting(settings("next")) == "2026-08-10T09:00:00Z"
    await set_days(database_url, clock, weekend=["sunday"])
    async with serving(database_url, clock, settings("next")) as service:
        assert (await service.show(id))["nextBirthdayEvent"]["dueAt"] == "2026-08-08T09:00:00Z"
    await set_days(database_url, clock)
    assert await next_greeting(settings("previous")) == "2026-08-07T09:00:00Z"
    clock.advance(timedelta(days=6, hours=2))
    async with serving(database_url, clock, settings("previous")) as service:
        assert await service.run() == 1
    # The year is done, so that leaving the calendar does not repeat it on Saturday.
    assert await next_greeting({}) == "2027-08-08T09:00:00Z"


@pytest.mark.parametrize("move", ["next", "previous"])
async def test_the_day_of_birth_is_not_greeted(
    sqlite_url: str, clock: VirtualClock, move: str
) -> None:
    await set_days(sqlite_url, clock)
    async with serving(sqlite_url, clock, settings(move)) as service:
        # Born on a Saturday, today; the first birthday is a Sunday.
        shown = await service.register(dateOfBirth="2026-08-01", **UTC_ZONE)
        first = {"next": "2027-08-02T09:00:00Z", "previous": "2027-07-30T09:00:00Z"}[move]
        assert shown["nextBirthdayEvent"]["dueAt"] == first


async def test_settings_are_checked(sqlite_url: str, clock: VirtualClock) -> None:
    found = manner_of({"BIRTHDAY_CALENDAR": "office"}, [Birthday()])
    assert (found.calendar, found.move) == ("office", "next")
    assert manner_of({}, [Birthday()]).calendar is None
    with pytest.raises(BadSetting, match="BIRTHDAY_MOVE: 'later' is none of skip, next, previous"):
        manner_of(settings("later"), [Birthday()])
    with pytest.raises(BadSetting, match="without BIRTHDAY_CALENDAR"):
        manner_of({"BIRTHDAY_MOVE": "next"}, [Birthday()])
    with pytest.raises(BadSetting, match="BIRTHDAY_CALENDAR: no calendar 'office'"):
        async with serving(sqlite_url, clock, settings("next")):
            pass
