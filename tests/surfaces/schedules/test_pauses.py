"""`duly schedules pause` and `resume`: several schedules, or all that match."""

import pytest

from duly import every
from tests.surfaces.processes import Home

pytestmark = pytest.mark.requirement("F11", "S5", "C4")


async def declare(home: Home, *names: str) -> None:
    async with home.app() as app:
        for name in names:
            await app.schedule(name, every("1h"), "log")


def paused(home: Home) -> list[str]:
    listed = home.json("schedules", "list")["items"]
    return [each["name"] for each in listed if each["state"] == "paused"]


async def test_those_with_a_text_in_their_name_are_paused_and_resumed(home: Home) -> None:
    await declare(home, "daily-report", "weekly-Report", "other")
    pause = ("schedules", "pause", "--text", "report")
    assert home.ok(*pause, "--dry-run") == "2 schedules"
    asked = home.duly(*pause)
    assert (asked.returncode, "--yes" in asked.stderr, paused(home)) == (2, True, [])
    assert home.ok(*pause, "--reason", "repair", "--yes") == "2 of 2 paused"
    assert paused(home) == ["daily-report", "weekly-Report"]
    assert home.json("schedules", "show", "daily-report")["pause_reason"] == "repair"
    assert home.ok("schedules", "resume", "--text", "weekly", "--yes") == "1 of 1 resumed"
    assert paused(home) == ["daily-report"]


async def test_several_names_or_all_are_paused(home: Home) -> None:
    await declare(home, "a", "b", "c")
    assert home.ok("schedules", "pause", "a", "b", "unknown", "--yes") == "2 of 2 paused"
    assert paused(home) == ["a", "b"]
    assert home.json("schedules", "pause", "--all", "--yes")["moved"] == 1
    assert home.ok("schedules", "resume", "--all", "--from-pause", "--yes") == "3 of 3 resumed"
    assert paused(home) == []


async def test_a_list_is_of_those_with_a_text_in_their_name(home: Home) -> None:
    await declare(home, "daily-report", "weekly-Report", "other")
    found = home.json("schedules", "list", "--text", "REPORT", "--limit", "1")
    assert [each["name"] for each in found["items"]] == ["daily-report"]
    more = home.json("schedules", "list", "--text", "REPORT", "--after", found["next"])
    assert [each["name"] for each in more["items"]] == ["weekly-Report"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "names: give names, --text, or --all for all schedules"),
        (("--text", ""), "text: "),
        (("a", ""), "names: "),
    ],
)
async def test_a_bad_filter_is_code_2_and_changes_nothing(
    sqlite_home: Home, flags: tuple[str, ...], message: str
) -> None:
    await declare(sqlite_home, "a")
    for verb in ("pause", "resume"):
        done = sqlite_home.duly("schedules", verb, *flags, "--yes")
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert paused(sqlite_home) == []
