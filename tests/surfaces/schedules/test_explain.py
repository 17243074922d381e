"""`duly schedules explain`: an expression in words and its next moments, without a store."""

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from tests.surfaces.processes import Home

pytestmark = pytest.mark.requirement("C2")


def test_an_expression_is_explained_in_words_and_in_local_and_utc_moments(
    sqlite_home: Home,
) -> None:
    found = sqlite_home.json(
        "schedules", "explain", "0 9 * * MON", "--tz", "Europe/Oslo", "-n", "3"
    )
    assert (found["rule"], found["kind"]) == ("at 09:00 on Monday, Europe/Oslo", "fixed-time")
    assert len(found["next"]) == 3
    for each in found["next"]:
        local = datetime.fromisoformat(each["local"])
        assert local == datetime.fromisoformat(each["at"])
        assert (local.hour, local.isoweekday()) == (9, 1)


@pytest.mark.requirement("L5")
def test_words_are_explained_as_cron_and_in_words(sqlite_home: Home) -> None:
    found = sqlite_home.json("schedules", "explain", "every weekday at 9am", "--tz", "Asia/Tokyo")
    assert (found["rule"], found["cron"]) == (
        "at 09:00 on Monday to Friday, Asia/Tokyo",
        "0 9 * * MON-FRI",
    )
    refused = sqlite_home.duly("schedules", "explain", "every wekday at 9am")
    assert refused.returncode == 2
    assert "'wekday' does not fit there; do you mean 'every weekday at 9am'?" in refused.stderr


def test_it_needs_no_store(sqlite_home: Home) -> None:
    output = sqlite_home.ok("schedules", "explain", "@daily", "-n", "1")
    assert "at 00:00 every day, UTC" in output
    assert "00:00:00.000Z" in output
    assert list(sqlite_home.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("expression", "kind", "message"),
    [
        ("30 2 * * *", "fixed-time", "one that comes twice runs the first time"),
        ("*/15 * * * *", "wildcard", "a repeated hour runs twice"),
        ("@every 90s", "elapsed", "clock changes do not touch"),
    ],
)
def test_one_line_explains_clock_changes(
    sqlite_home: Home, expression: str, kind: str, message: str
) -> None:
    output = sqlite_home.ok("schedules", "explain", expression, "--tz", "Europe/Oslo")
    lines = dict(line.split(maxsplit=1) for line in output.split("\n\n")[0].splitlines())
    assert lines["kind"] == kind
    assert message in lines["clock_changes"]


def test_an_interval_is_shown_in_the_given_zone(
    sqlite_home: Home,
) -> None:
    found = sqlite_home.json("schedules", "explain", "@every 90s", "--tz", "Asia/Kathmandu")
    moments = [datetime.fromisoformat(each["at"]) for each in found["next"]]
    assert {later - earlier for earlier, later in pairwise(moments)} == {timedelta(seconds=90)}
    assert all(each["local"].endswith("+05:45") for each in found["next"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("61 * * * *",), "minute: 61 is outside 0-59"),
        (("0 0 31 2 *",), "expression: "),
        (("@never",), "expression: '@never' is not known"),
        (("@every 0s",), "interval: "),
        (("* * * * *", "--tz", "Europe/oslo"), "tz: 'Europe/oslo' is no time zone"),
        (("* * * * *", "-n", "-1"), "n: -1 is not"),
        ((), "EXPRESSION"),
    ],
)
def test_an_invalid_expression_is_code_2(
    sqlite_home: Home, arguments: tuple[str, ...], message: str
) -> None:
    done = sqlite_home.duly("schedules", "explain", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
