"""The examples of the rules for time: every row of tests/data/time.json is true."""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duly.domain.time.rules import At, Rule, Yearly, at, cron, every, yearly
from duly.domain.time.zones import zone, zone_data_version

pytestmark = pytest.mark.requirement("C2")

TABLE: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "time.json").read_text())
ON_TIME = timedelta(seconds=60)
ALWAYS = timedelta(days=36_500)

Row = dict[str, Any]


@pytest.mark.parametrize("row", TABLE["rows"], ids=lambda row: row["id"])
def test_every_example_is_true(row: Row) -> None:
    check(row)


def test_a_row_of_an_unknown_kind_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="unknown kind of example"):
        check({"id": "X1", "kind": "leap second"})


def test_a_row_with_a_wrong_answer_fails() -> None:
    row = next(row for row in TABLE["rows"] if row["id"] == "C01")
    with pytest.raises(AssertionError):
        check({**row, "expected": [*row["expected"][1:], row["expected"][0]]})


def test_the_zone_data_is_not_older_than_the_examples() -> None:
    assert zone_data_version() >= TABLE["zone_data"]


def check(row: Row) -> None:
    match row["kind"]:
        case "next":
            check_next(row)
        case "at":
            occurrence = wall_time(row).occurrence()
            assert [occurrence.at] == moments(row["expected"])
            assert occurrence.shifted is row["shifted"]
        case "newer zone data":
            assert [wall_time(row).occurrence().at] == moments(row["expected"])
            assert moment(row["computed_before"]) not in moments(row["expected"])
        case "zone edited":
            check_change(row)
        case "catch-up":
            check_catch_up(row)
        case "clock stepped back":
            now = max(moment(row["now"]), moment(row["mark"]))
            assert rule_of(row).preview(1, after=now) == moments(row["expected"])
        case unknown:
            pytest.fail(f"unknown kind of example {unknown!r} (row {row['id']})")


def check_next(row: Row) -> None:
    rule, expected = rule_of(row), moments(row["expected"])
    found = rule.preview(len(expected), after=moment(row["after"]))
    assert found == expected
    if "local_dates" in row:
        here = zone(str(rule.zone_name))
        dates = [each.astimezone(here).date().isoformat() for each in found]
        assert dates == row["local_dates"]


def check_change(row: Row) -> None:
    """Check what a planner writes for the pending year and the next one."""
    before = yearly(**row["yearly"])
    after = yearly(**{**row["yearly"], "tz": row["new_tz"]})
    pending = max(row["done_years"]) + 1
    assert [at_of(before if row["claimed"] else after, pending)] == moments(row["expected"])
    if "then" in row:
        assert at_of(after, pending + 1) == moment(row["then"])


def at_of(rule: Yearly, year: int) -> datetime | None:
    occurrence = rule.of_year(year)
    return occurrence and occurrence.at


def check_catch_up(row: Row) -> None:
    rule, mark, now = rule_of(row), moment(row["mark"]), moment(row["now"])
    missed = rule.count(mark, now)
    window = timedelta(seconds=row["window_seconds"]) if "window_seconds" in row else ALWAYS
    window = ON_TIME if row["policy"] == "skip" else window
    start = max(mark, now - window - timedelta.resolution)
    made = 1 if row["policy"] == "latest" else rule.count(start, now)
    assert (made, missed - made) == (row["made"], row["left_out"])
    expected = moments(row["expected"])
    assert rule.last(start, now).at == expected[-1]  # type: ignore[union-attr]
    if row["policy"] == "all":
        assert rule.next_after(start) == expected[0]


def rule_of(row: Row) -> Rule:
    if "cron" in row:
        return cron(**row["cron"])
    if "every" in row:
        return every(**row["every"])
    return yearly(**row["yearly"])


def wall_time(row: Row) -> At:
    return at(**row["at"])


def moments(texts: Iterable[str]) -> list[datetime]:
    return [moment(text) for text in texts]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
