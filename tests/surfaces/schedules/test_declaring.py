"""`duly schedules add`: accepted and refused input, and what it prints."""

import json
from typing import Any

import pytest

from duly.records.schedule import ScheduleOptions
from tests.surfaces.processes import Home

pytestmark = pytest.mark.requirement("C2")
OSLO = ("--tz", "Europe/Oslo")
FROM_2040 = ("--start", "2040-01-01T00:00Z")
MONDAYS = ("--cron", "0 9 * * MON", *OSLO, *FROM_2040)


@pytest.mark.parametrize(
    ("rule", "words", "next_at"),
    [
        (MONDAYS, "at 09:00 on Monday, Europe/Oslo", "2040-01-02T08:00:00Z"),
        (
            (*MONDAYS, "--cron", "30 8 * * SUN"),
            "at 09:00 on Monday, or at 08:30 on Sunday, Europe/Oslo",
            "2040-01-01T07:30:00Z",
        ),
        (("--cron", "@every 90s", *FROM_2040), "every 90 seconds", "2040-01-01T00:00:00Z"),
        (
            ("--every", "36h", "--anchor", "2039-12-31T06:00+01:00", *FROM_2040),
            "every 36 hours from 31 December 2039 at 05:00, UTC",
            "2040-01-01T17:00:00Z",
        ),
        (
            ("--at", "2040-01-01T09:00", "--tz", "Asia/Tokyo"),
            "once, on 1 January 2040 at 09:00, Asia/Tokyo",
            "2040-01-01T00:00:00Z",
        ),
        (
            ("--at", "2040-01-01T09:00+01:00"),
            "once, on 1 January 2040 at 08:00, UTC",
            "2040-01-01T08:00:00Z",
        ),
        (
            ("--yearly", "02-29", "--time", "07:30", *OSLO, "--feb29", "mar1",
             "--start", "2041-01-01T00:00Z"),
            "on 29 February at 07:30 (1 March in other years), Europe/Oslo",
            "2041-03-01T06:30:00Z",
        ),
    ],
)  # fmt: skip
async def test_every_rule_can_be_given(
    sqlite_home: Home, rule: tuple[str, ...], words: str, next_at: str
) -> None:
    await sqlite_home.know("log")
    found = sqlite_home.json("schedules", "add", "it", "log", *rule)
    assert (found["change"], found["state"]) == ("created", "active")
    assert (found["description"], found["next_at"]) == (words, next_at)


@pytest.mark.requirement("L5")
@pytest.mark.parametrize(
    ("words", "understood", "rule"),
    [
        (
            "every weekday at 9am",
            "understood as 0 9 * * MON-FRI: at 09:00 on Monday to Friday, Europe/Oslo",
            {"cron": "0 9 * * MON-FRI", "tz": "Europe/Oslo", "dst_gap": "run"},
        ),
        ("every 45 minutes", "understood as @every 2700s: every 45 minutes", {"every": "2700s"}),
    ],
)
async def test_words_are_understood_before_they_are_stored(
    home: Home, words: str, understood: str, rule: dict[str, str]
) -> None:
    await home.know("log")
    added = home.duly("schedules", "add", "it", "log", "--cron", words, *OSLO, "--json")
    assert understood in added.stderr
    assert json.loads(added.stdout)["rule"] == rule
    assert home.duly("schedules", "add", "it", "log", "--cron", "when it rains").returncode == 2
    assert home.json("schedules", "show", "it")["rule"] == rule


async def test_the_same_schedule_changes_nothing_and_another_rule_moves_it(home: Home) -> None:
    await home.know("log")
    added = [home.json("schedules", "add", "monday", "log", "1", *MONDAYS) for _ in range(2)]
    assert [each["change"] for each in added] == ["created", "unchanged"]
    sunday = ("--cron", "0 9 * * SUN", *FROM_2040)
    output = home.ok("schedules", "add", "monday", "log", "1", *sunday)
    assert "change  changed" in output
    assert "next    2040-01-01 09:00:00.000Z" in output
    assert len(home.json("deliveries", "list")["items"]) == 1


async def test_every_option_is_stored(home: Home) -> None:
    await home.know("log")
    home.ok(
        "schedules", "add", "all", "log", '{"b" : 1.50}', "--cron", "30 2 * * *", *OSLO,
        "--dst-gap", "skip", "--catch-up", "all", "--window", "6h", "--cap", "7",
        "--overlap", "queue", *FROM_2040, "--end", "2041-01-01T00:00Z", "--max-runs", "3",
        "--jitter", "5m", "--expires-after", "2h", "--priority", "8",
        "--tag", "red", "--tag", "blue",
    )  # fmt: skip
    found = home.json("schedules", "show", "all")
    assert found["rule"] == {"cron": "30 2 * * *", "tz": "Europe/Oslo", "dst_gap": "skip"}
    assert {name: found[name] for name in ScheduleOptions.__struct_fields__} == {
        "catch_up": "all", "window": 21600.0, "cap": 7, "overlap": "queue",
        "start": "2040-01-01T00:00:00Z", "end": "2041-01-01T00:00:00Z",
        "max_runs": 3, "jitter": 300.0, "expires_after": 7200.0, "retry": None, "priority": 8,
        "stream": None, "tags": ["red", "blue"],
    }  # fmt: skip
    assert (found["target"], found["payload"]) == ("log", {"b": 1.5})


async def test_a_payload_may_come_from_stdin(sqlite_home: Home) -> None:
    await sqlite_home.know("log")
    sqlite_home.ok("schedules", "add", "it", "log", "-", *MONDAYS, stdin="[1]")
    assert sqlite_home.json("schedules", "show", "it")["payload"] == [1]


async def test_a_wall_time_that_the_clock_skips_is_moved_and_reported(
    sqlite_home: Home,
) -> None:
    await sqlite_home.know("log")
    add = ("schedules", "add", "gap", "log", "--at", "2040-03-25T02:30", *OSLO)
    assert sqlite_home.json(*add)["next_at"] == "2040-03-25T01:30:00Z"
    done = sqlite_home.duly(*add)
    assert "2040-03-25 03:30:00+02:00 Europe/Oslo, moved: the clock skips its time" in done.stdout
    assert "the clock in Europe/Oslo skips this time" in done.stderr
    assert "moved to 03:30" in done.stderr


async def test_a_moment_that_has_passed_is_due_at_once(sqlite_home: Home) -> None:
    await sqlite_home.know("log")
    done = sqlite_home.duly("schedules", "add", "late", "log", "--at", "2026-01-01T00:00Z")
    assert done.returncode == 0
    assert "it is due now" in done.stderr
    (made,) = sqlite_home.json("deliveries", "list")["items"]
    assert (made["state"], made["due_at"]) == ("pending", "2026-01-01T00:00:00Z")


def test_a_first_schedule_fires(home: Home) -> None:
    with home.serving() as server:
        home.ok("schedules", "add", "beat", "log", "--every", "1s")
        first, second = (json.loads(server.wait_for("Logged")["payload"]) for _ in range(2))
    assert first["schedule"] == second["schedule"] == "beat"
    assert first["scheduled_for"] < second["scheduled_for"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "rule: give exactly one of --cron, --every, --at and --yearly"),
        (("--cron", "@daily", "--every", "5m"), "rule: give exactly one of"),
        (("--cron", "0 25 * * *"), "hour: 25 is outside 0-23"),
        (("--cron", "@daily", "--tz", "Mars/Base"), "tz: 'Mars/Base' is no time zone"),
        (("--cron", "@daily", "--dst-gap", "maybe"), "dst_gap: 'maybe'"),
        (("--every", "0s"), "interval: "),
        (("--every", "soon"), "interval: 'soon' is no duration"),
        (("--every", "5m", "--tz", "UTC"), "tz: it says nothing beside --every"),
        (("--every", "5m", "--anchor", "2026-01-01T00:00"), "anchor: "),
        (("--at", "2040-01-01T09:00"), "tz: "),
        (("--at", "tomorrow", *OSLO), "moment: 'tomorrow' is no moment"),
        (("--yearly", "02-31"), "day: February has no 31"),
        (("--yearly", "December 24"), "yearly: 'December 24' is no day of the year"),
        (("--yearly", "12-24", "--time", "9"), "time: '9' is no time of day"),
        (("--yearly", "02-29", "--feb29", "never"), "feb29: 'never' is none of"),
        (("--cron", "@daily", "--catch-up", "some"), "catch_up: 'some' is none of"),
        (("--cron", "@daily", "--overlap", "some"), "overlap: 'some' is none of"),
        (("--cron", "@daily", "--window", "x"), "window: 'x' is no duration"),
        (("--cron", "@daily", "--cap", "0"), "cap: 0 is not a whole number"),
        (("--cron", "@daily", "--max-runs", "many"), "--max-runs"),
        (("--cron", "@daily", "--jitter", "8d"), "jitter: "),
        (("--cron", "@daily", "--priority", "10"), "priority: 10"),
        (("--cron", "@daily", "--start", "2040-01-01T00:00"), "start: "),
        ((*MONDAYS, "--end", "2039-01-01T00:00Z"), "end: "),
    ],
)  # fmt: skip
def test_invalid_flags_are_refused_with_the_field_and_code_2(
    sqlite_home: Home, sqlite_url: str, flags: tuple[str, ...], message: str
) -> None:
    done = sqlite_home.duly("schedules", "add", "it", "log", *flags, "--database", sqlite_url)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("it", "nobody"), "target: no handler 'nobody' is known"),
        (("it", "log", "{"), "payload: it is not valid JSON"),
        (("", "log"), "name: "),
    ],
)
async def test_an_invalid_name_target_or_payload_is_code_2_and_changes_nothing(
    sqlite_home: Home, arguments: tuple[str, ...], message: str
) -> None:
    await sqlite_home.know("log")
    done = sqlite_home.duly("schedules", "add", *arguments, *MONDAYS)
    assert done.returncode == 2
    assert message in done.stderr
    found: Any = sqlite_home.json("schedules", "list")
    assert found == {"items": [], "next": None}
