"""`duly calendars`, and calendars in the rules of other commands."""

from pathlib import Path

import pytest

from tests.surfaces.processes import Home

pytestmark = pytest.mark.requirement("L6")
FILE = (
    "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20401225\nSUMMARY:Christmas\n"
    "END:VEVENT\nEND:VCALENDAR\n"
)
DAILY = ("--cron", "0 9 * * *", "--tz", "Europe/Oslo", "--start", "2040-12-24T00:00Z")


def test_calendars_are_set_imported_shown_listed_and_removed(
    sqlite_home: Home, tmp_path: Path
) -> None:
    home = sqlite_home
    created = home.json(
        *("calendars", "set", "nrw", "--closed", "2040-12-25=Christmas", "--closed", "2040-12-27"),
        *("--weekend", "friday"),
    )
    assert (created["change"], created["weekend"]) == ("created", ["friday"])
    assert created["closed"] == {"2040-12-25": "Christmas", "2040-12-27": ""}
    path = tmp_path / "days.ics"
    path.write_text(FILE)
    assert home.ok("calendars", "import", "nrw", str(path)) == "nrw changed, closed dates: 1"
    assert home.ok("calendars", "set", "plain") == "plain created, closed dates: 0"
    listed = home.ok("calendars", "list")
    assert [line.split()[0] for line in listed.splitlines()] == ["name", "nrw", "plain"]
    assert [each["name"] for each in home.json("calendars", "list", "--limit", "1")["items"]] == [
        "nrw"
    ]
    shown = home.ok("calendars", "show", "nrw")
    assert "weekend     friday" in shown
    assert "2040-12-25  Christmas" in shown
    removed = home.json("calendars", "remove", "nrw", "--yes")
    assert removed == {"name": "nrw", "removed": True}
    assert home.duly("calendars", "show", "nrw").returncode == 3


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--closed", "25.12.2040"), "closed: '25.12.2040' is no date; write 2026-12-25"),
        (("--closed", "2040-12-25", "--closed", "2040-12-25=x"), "closed: a date is given twice"),
        (("--weekend", "someday"), "weekend: 'someday' is none of monday"),
        (("--weekend", "friday", "--no-weekend"), "no_weekend: give it or --weekend"),
        (("--no-weekend",), "closed: it closes no day"),
    ],
)
def test_bad_input_is_refused(sqlite_home: Home, arguments: tuple[str, ...], problem: str) -> None:
    refused = sqlite_home.duly("calendars", "set", "nrw", *arguments)
    assert refused.returncode == 2
    assert problem in refused.stderr


async def test_schedules_use_a_calendar_and_say_why(sqlite_home: Home) -> None:
    home = sqlite_home
    await home.know("log")
    home.ok("calendars", "set", "nrw", "--closed", "2040-12-25=Christmas")
    added = home.json("schedules", "add", "daily", "log", *DAILY, "--calendar", "nrw")
    assert added["rule"]["calendar"] == "nrw"
    assert added["next_at"] == "2040-12-24T08:00:00Z"
    several = ("--cron", "0 10 * * *", "--calendar", "nrw", "--move", "next")
    both = home.ok("schedules", "add", "both", "log", *DAILY, *several)
    assert "or at 10:00 every day, Europe/Oslo, moved to the next business day of nrw" in both
    preview = home.ok("schedules", "preview", "daily", "-n", "2")
    assert "2040-12-25 09:00:00+01:00 Europe/Oslo left out: Christmas (calendar nrw)" in preview
    monthly = ("--cron", "0 9 25 12 *", *DAILY[2:], "--calendar", "nrw", "--move", "next")
    text = home.ok("schedules", "add", "monthly", "log", *monthly)
    assert "moved from Tue 2040-12-25 09:00: Christmas (calendar nrw)" in text
    used = home.duly("calendars", "remove", "nrw", "--yes")
    assert used.returncode == 5
    assert "used by both, daily, monthly" in used.stderr
    explained = home.json(
        *("schedules", "explain", "0 9 * * SAT", "--calendar", "nrw", "--move", "previous")
    )
    assert explained["next"][0]["reason"] == "weekend (calendar nrw)"
    refused = home.duly("schedules", "explain", "0 9 * * *", "--move", "next")
    assert refused.returncode == 2
    assert "move: it says nothing without --calendar" in refused.stderr
