"""`duly schedules`: list, show, pause, remove, trigger and backfill schedules."""

import asyncio
import signal
from datetime import UTC, datetime
from typing import Any

import pytest

import duly
from duly import App
from duly.testing import VirtualClock
from tests.surfaces.processes import DEADLINE_SECONDS, Home

FROM_2040 = datetime(2040, 1, 1, tzinfo=UTC)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
OSLO = "Europe/Oslo"
RANGE = ("--from", "2026-03-01T00:00Z", "--to", "2026-03-01T05:00Z")


async def declare(home: Home, *names: str, rule: Any = None, **options: Any) -> None:
    """Declare schedules that are first due in 2040, if no rule is given."""
    rule = rule or duly.cron("0 9 * * MON", tz=OSLO)
    async with home.app() as app:
        for name in names:
            await app.schedule(name, rule, "log", {"n": 1}, **{"start": FROM_2040, **options})


async def declare_long_ago(home: Home, name: str, *, paused: bool) -> None:
    """An hourly schedule that has not been planned since the beginning of 2026."""
    app = App(home.database, clock=VirtualClock(LONG_AGO), environment={})
    app.expect("log")
    async with app:
        await app.schedule(name, duly.every("1h"), "log")
        if paused:
            await app.schedules.pause(name)


@pytest.mark.requirement("C4")
async def test_a_list_has_the_next_and_the_last_moment(home: Home) -> None:
    await declare(home, "monday")
    await declare_long_ago(home, "hourly", paused=True)
    home.ok("schedules", "resume", "hourly", "--from-pause")
    hourly, monday = home.json("schedules", "list")["items"]
    assert monday == {
        "name": "monday", "state": "active", "description": "at 09:00 on Monday, Europe/Oslo",
        "target": "log", "next_at": "2040-01-02T08:00:00Z", "last_fired_at": None,
        "runs": 0, "merged": 0, "skipped": 0, "problem": None,
    }  # fmt: skip
    assert hourly["last_fired_at"] < hourly["next_at"]
    assert hourly["runs"] == 1
    output = home.ok("schedules", "list")
    assert "2040-01-02 08:00:00.000Z" in output
    assert "every hour" in output


@pytest.mark.requirement("C2")
@pytest.mark.parametrize(
    ("rule", "moment"),
    [
        (duly.at("2026-01-02T09:00", tz="Asia/Tokyo"), "2026-01-02T00:00:00Z"),
        (duly.at(LONG_AGO), "2026-01-01T00:00:00Z"),
    ],
)
async def test_the_last_moment_of_a_wall_time_is_shown_in_utc(
    sqlite_home: Home, rule: Any, moment: str
) -> None:
    await declare(sqlite_home, "once", rule=rule, start=None)
    (once,) = sqlite_home.json("schedules", "list")["items"]
    assert (once["state"], once["last_fired_at"], once["runs"]) == ("finished", moment, 1)


async def test_pages_follow_each_other_by_name(home: Home) -> None:
    await declare(home, "a", "b", "c")
    first = home.json("schedules", "list", "--limit", "2")
    second = home.json("schedules", "list", "--limit", "2", "--after", first["next"])
    names = [each["name"] for each in first["items"] + second["items"]]
    assert (names, second["next"]) == (["a", "b", "c"], None)
    done = home.duly("schedules", "list", "--limit", "2")
    assert "there are more: --after b" in done.stderr


@pytest.mark.requirement("C2")
async def test_a_rule_of_a_newer_version_is_reported_and_the_others_are_listed(home: Home) -> None:
    await declare(home, "lunar", "monday")
    await home.execute(
        """update duly.schedules set rule = '{"kind":"moon"}' where name = 'lunar'"""
    )
    lunar, monday = home.json("schedules", "list")["items"]
    assert (lunar["state"], monday["state"]) == ("unreadable", "active")
    assert "cannot read the rule" in lunar["problem"]
    shown = home.duly("schedules", "show", "lunar")
    assert shown.returncode == 1
    assert "cannot read the rule" in shown.stderr
    assert "Traceback" not in shown.stderr


@pytest.mark.requirement("C4")
async def test_a_schedule_is_shown_with_all_its_fields_and_next_moments(home: Home) -> None:
    await declare(home, "monday", tags=["red"], jitter="5m", retry=duly.delays(0, 30))
    found = home.json("schedules", "show", "monday")
    assert found["payload"] == {"n": 1}
    assert found["retry"]["seconds"] == [0.0, 30.0]
    assert found["jitter"] == 300.0
    assert (found["runs"], found["next_at"]) == (0, "2040-01-02T08:00:00Z")
    assert found["rule"] == {"cron": "0 9 * * MON", "tz": OSLO, "dst_gap": "run"}
    assert [each["at"] for each in home.json("schedules", "preview", "monday")["items"]] == [
        f"2040-01-{day:02}T08:00:00Z" for day in (2, 9, 16, 23, 30)
    ]
    output = home.ok("schedules", "show", "monday")
    for part in ('{"n":1}', "5m", "red", "latest", "2040-01-02 09:00:00+01:00 Europe/Oslo"):
        assert part in output


@pytest.mark.requirement("C4")
async def test_a_pause_has_a_reason_and_lasts_until_it_is_resumed(home: Home) -> None:
    await declare(home, "monday")
    assert home.ok("schedules", "pause", "monday", "--reason", "holidays") == "monday paused"
    paused = home.json("schedules", "show", "monday")
    assert (paused["state"], paused["pause_reason"]) == ("paused", "holidays")
    assert home.json("deliveries", "list")["items"] == []
    assert "it is paused" in home.duly("schedules", "preview", "monday").stderr
    assert "it is paused" in home.duly("schedules", "show", "monday").stderr
    assert home.ok("schedules", "pause", "monday") == "monday was paused already"
    assert home.json("schedules", "show", "monday")["pause_reason"] == "holidays"
    assert home.json("schedules", "resume", "monday")["next_at"] == "2040-01-02T08:00:00Z"
    assert home.ok("schedules", "resume", "monday").startswith("monday was active already, next")


@pytest.mark.requirement("C3")
async def test_a_pause_is_caught_up_only_on_request(home: Home) -> None:
    for name in ("quiet", "thorough"):
        await declare_long_ago(home, name, paused=True)
    home.ok("schedules", "resume", "quiet")
    home.ok("schedules", "resume", "thorough", "--from-pause")
    quiet, thorough = home.json("schedules", "list")["items"]
    assert (quiet["runs"], quiet["merged"]) == (0, 0)
    assert thorough["runs"] == 1
    assert thorough["merged"] > 1000


@pytest.mark.requirement("C4")
async def test_a_removal_asks_first_and_cancels_pending_deliveries(home: Home) -> None:
    await declare(home, "monday")
    (pending,) = home.json("deliveries", "list")["items"]
    unasked = home.duly("schedules", "remove", "monday")
    assert unasked.returncode == 2
    assert "--yes" in unasked.stderr
    assert home.ok("schedules", "remove", "monday", stdin="n\n") == "monday kept"
    assert home.json("schedules", "remove", "monday", "--yes")["removed"] is True
    assert (await home.find(pending["id"])).state == "cancelled"
    assert home.duly("schedules", "show", "monday").returncode == 3


@pytest.mark.requirement("C4", "C10")
async def test_a_trigger_makes_one_delivery_now_and_keeps_the_plan(home: Home) -> None:
    await declare(home, "monday")
    made = await home.find(home.ok("schedules", "trigger", "monday"))
    assert (made.state, bytes(made.payload_json)) == ("pending", b'{"n":1}')
    assert made.due_at <= datetime.now(UTC)
    repeated = home.json("schedules", "trigger", "monday")
    assert (list(repeated), (await home.find(repeated["id"])).target) == (["id"], "log")
    (monday,) = home.json("schedules", "list")["items"]
    assert monday["next_at"] == "2040-01-02T08:00:00Z"


@pytest.mark.requirement("C4")
async def test_a_backfill_counts_first_and_makes_each_delivery_once(home: Home) -> None:
    await declare(home, "hourly", rule=duly.every("1h"), start=None)
    fill = ("schedules", "backfill", "hourly", *RANGE)
    counted = {"moments": 6, "made": 0, "finished": True}
    assert home.json(*fill, "--dry-run") == counted
    declined = home.duly(*fill, stdin="n\n")
    assert "hourly has 6 moments" in declined.stderr
    assert declined.stdout == "0 of 6 made\n"
    assert [home.json(*fill, "--yes")["made"] for _ in range(2)] == [6, 0]
    assert len(home.json("deliveries", "list")["items"]) == 7


@pytest.mark.requirement("C4")
async def test_a_stopped_backfill_can_be_continued(home: Home) -> None:
    await declare(home, "tick", rule=duly.every("1s"), start=None)
    span = ("--from", "2026-03-01T00:00Z", "--to", "2026-03-01T08:00Z")
    fill = ("schedules", "backfill", "tick", *span, "--yes")
    with home.running(*fill) as running:
        async with home.app() as app, asyncio.timeout(DEADLINE_SECONDS):
            while len(await app.list(limit=2)) < 2:
                pass
        running.signal(signal.SIGINT)
        assert running.end() == 128 + signal.SIGINT
    stopped = [line for line in running.log if line.startswith("stopped after ")]
    assert "the same command creates the rest" in stopped[0]
    assert "Traceback" not in "".join(running.log)
    home.ok(*fill)
    async with home.app() as app:
        assert len(await app.list(limit=50_000)) == 1 + 28_801


@pytest.mark.parametrize(
    ("span", "message"),
    [
        (("--from", "2026-03-01T00:00Z", "--to", "2090-01-01T00:00Z"), "to: give a range in the"),
        (("--from", "2026-03-02T00:00Z", "--to", "2026-03-01T00:00Z"), "to: give a range in the"),
        (("--from", "1980-01-01T00:00Z", "--to", "2026-01-01T00:00Z"), "from: 403249 moments are"),
        (("--from", "yesterday", "--to", "2026-01-01T00:00Z"), "from: 'yesterday' is not a moment"),
        (("--from", "2026-01-01T00:00Z"), "--to"),
    ],
)  # fmt: skip
async def test_an_invalid_range_of_a_backfill_is_code_2(
    sqlite_home: Home, span: tuple[str, ...], message: str
) -> None:
    await declare(sqlite_home, "hourly", rule=duly.every("1h"), start=None)
    done = sqlite_home.duly("schedules", "backfill", "hourly", *span, "--yes")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.requirement("C4")
async def test_a_preview_ends_with_the_schedule(sqlite_home: Home) -> None:
    half_past_two = duly.cron("30 2 * * *", tz=OSLO)
    start = datetime(2040, 3, 24, tzinfo=UTC)
    await declare(sqlite_home, "spring", rule=half_past_two, start=start, max_runs=2)
    await declare(sqlite_home, "short", rule=half_past_two, start=start, end=start)
    found = sqlite_home.json("schedules", "preview", "spring")["items"]
    assert [(each["local"], each["shifted"]) for each in found] == [
        ("2040-03-24T02:30:00+01:00", False),
        ("2040-03-25T03:00:00+02:00", True),
    ]
    assert len(sqlite_home.json("schedules", "preview", "spring", "-n", "1")["items"]) == 1
    assert sqlite_home.json("schedules", "preview", "short")["items"] == []
    output = sqlite_home.ok("schedules", "preview", "spring")
    assert "03:00:00+02:00 Europe/Oslo, moved: the clock skips its time" in output
    assert sqlite_home.duly("schedules", "preview", "spring", "-n", "-1").returncode == 2


@pytest.mark.parametrize(
    "command",
    [
        ("show", "nobody"),
        ("pause", "nobody"),
        ("resume", "nobody"),
        ("remove", "nobody"),
        ("trigger", "nobody"),
        ("preview", "nobody"),
        ("backfill", "nobody", *RANGE),
    ],
    ids=lambda command: command[0],
)
async def test_an_unknown_schedule_is_code_3(sqlite_home: Home, command: tuple[str, ...]) -> None:
    await declare(sqlite_home, "monday")
    done = sqlite_home.duly("schedules", *command)
    assert (done.returncode, done.stdout) == (3, "")
    assert "no schedule 'nobody'; duly schedules list" in done.stderr
