"""`at` and `yearly`: the wall time is stored, and the instant is derived from it."""

import json
from datetime import UTC, datetime, time, timedelta, timezone
from typing import Any

import pytest

from duly.domain.time.rules import Occurrence, at, encode_rule, yearly
from duly.errors import InvalidInput, quoted

pytestmark = pytest.mark.requirement("C2")

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)


def test_a_time_with_an_offset_is_a_fixed_instant() -> None:
    oslo = datetime(2026, 11, 15, 9, tzinfo=timezone(timedelta(hours=1)))
    for each in (oslo, "2026-11-15T09:00:00+01:00", "2026-11-15 08:00Z"):
        rule = at(each)
        assert rule.tz is None
        assert rule.occurrence() == Occurrence("2026-11-15T08:00:00Z", NOON.replace(hour=8))


def test_a_time_with_a_zone_is_stored_as_a_wall_time() -> None:
    wall = datetime(2026, 11, 15, 9)  # noqa: DTZ001
    for each in (wall, "2026-11-15T09:00", "2026-11-15 09:00:00", wall.replace(fold=1)):
        rule = at(each, tz="Asia/Tokyo")
        assert rule.occurrence() == Occurrence("2026-11-15T09:00:00", NOON.replace(hour=0))
        assert json.loads(encode_rule(rule))["moment"] == "2026-11-15T09:00:00"


@pytest.mark.parametrize(
    ("wall", "tz", "instant", "shifted"),
    [
        ("2026-03-08T02:30", "America/New_York", "2026-03-08T07:30Z", True),
        ("2026-03-08T03:00", "America/New_York", "2026-03-08T07:00Z", False),
        ("2026-11-01T01:30", "America/New_York", "2026-11-01T05:30Z", False),
        ("2026-03-29T00:30", "Atlantic/Azores", "2026-03-29T01:30Z", True),
        ("2026-03-29T01:30", "Europe/London", "2026-03-29T01:30Z", True),
        ("2026-10-25T01:30", "Europe/London", "2026-10-25T00:30Z", False),
        ("2011-12-30T09:00", "Pacific/Apia", "2011-12-30T19:00Z", True),
    ],
)
def test_a_time_in_a_gap_moves_forward_and_a_repeated_time_is_the_first(
    wall: str, tz: str, instant: str, shifted: bool
) -> None:
    occurrence = at(wall, tz).occurrence()
    assert occurrence.at == datetime.fromisoformat(instant)
    assert occurrence.shifted is shifted
    assert occurrence.identity == f"{wall}:00"


def test_at_happens_once() -> None:
    rule = at("2026-11-15T12:00Z")
    assert rule.next_after(NOON - SECOND) == NOON
    assert rule.next_after(NOON) is None
    assert [each.at for each in rule.occurrences(NOON - DAY)] == [NOON]


@pytest.mark.parametrize(
    ("moment", "tz", "field", "remedy"),
    [
        ("2026-11-15T09:00", None, "tz", "Give tz, as in tz='Europe/Oslo'"),
        ("2026-11-15T09:00Z", "Europe/Oslo", "tz", "leave out one of the two"),
        ("2026-11-15T09:00", "Mars/Olympus", "tz", "give an IANA name"),
        ("2026-11-15", "Europe/Oslo", "moment", "write 2026-11-15T09:00"),
        ("2026-02-30T09:00", "Europe/Oslo", "moment", "write 2026-11-15T09:00"),
        ("nine o'clock: sharp", "Europe/Oslo", "moment", "write 2026-11-15T09:00"),
        (":" * 10_000, "Europe/Oslo", "moment", "write 2026-11-15T09:00"),
        ("", "Europe/Oslo", "moment", "write 2026-11-15T09:00"),
        ("\ud800:", "Europe/Oslo", "moment", "write 2026-11-15T09:00"),
        (None, "Europe/Oslo", "moment", "write 2026-11-15T09:00"),
        (1_763_000_000, None, "moment", "write 2026-11-15T09:00"),
        ("1969-12-31T23:59Z", None, "moment", "not between 1970 and 9000"),
        ("9999-12-31T23:59:59-12:00", None, "moment", "not between 1970 and 9000"),
        ("9999-12-31T23:59:59", "Etc/GMT+12", "moment", "not between 1970 and 9000"),
        ("0001-01-01T00:00", "Pacific/Kiritimati", "moment", "not between 1970 and 9000"),
        ("1970-01-01T00:00", "Europe/Oslo", "moment", "not between 1970 and 9000"),
    ],
)
def test_an_invalid_moment_is_refused(moment: Any, tz: str | None, field: str, remedy: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        at(moment, tz)
    assert refused.value.field == field
    assert remedy in refused.value.problem
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("policy", "dates"),
    [
        ("feb28", ["2095-02-28", "2096-02-29", "2097-02-28", "2100-02-28", "2104-02-29"]),
        ("mar1", ["2095-03-01", "2096-02-29", "2097-03-01", "2100-03-01", "2104-02-29"]),
        ("skip", [None, "2096-02-29", None, None, "2104-02-29"]),
    ],
)
def test_a_leap_day_follows_its_policy_in_other_years(policy: Any, dates: list[str | None]) -> None:
    rule = yearly(2, 29, feb29=policy)
    found = [rule.of_year(year) for year in (2095, 2096, 2097, 2100, 2104)]
    assert [each and f"{each.at:%Y-%m-%d}" for each in found] == dates


def test_skipping_finds_the_next_leap_day_over_eight_years() -> None:
    found = yearly(2, 29, feb29="skip").next_after(datetime(2096, 3, 1, tzinfo=UTC))
    assert found == datetime(2104, 2, 29, 9, tzinfo=UTC)


def test_the_identity_is_the_local_year() -> None:
    ahead = yearly(1, 1, "09:00", "Pacific/Kiritimati").of_year(2027)
    assert ahead == Occurrence("2027", datetime(2026, 12, 31, 19, tzinfo=UTC))
    behind = yearly(12, 31, "23:00", "Pacific/Pago_Pago").of_year(2026)
    assert behind == Occurrence("2026", datetime(2027, 1, 1, 10, tzinfo=UTC))


@pytest.mark.parametrize("tz", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"])
@pytest.mark.parametrize(("month", "day", "clock"), [(1, 1, "00:00"), (12, 31, "23:59:59")])
def test_no_year_is_lost_or_repeated_at_the_turn_of_the_year(
    tz: str, month: int, day: int, clock: str
) -> None:
    found = yearly(month, day, clock, tz).occurrences(datetime(1990, 6, 1, tzinfo=UTC))
    years = [int(each.identity) for each in found]
    assert years == list(range(years[0], years[0] + len(years)))
    assert years[-1] >= 8998


def test_the_year_ends_by_the_local_clock() -> None:
    rule = yearly(12, 31, "23:00", "Pacific/Pago_Pago")
    for year in range(1971, 9000):
        new_year = datetime(year, 1, 1, tzinfo=UTC)
        assert rule.next_after(new_year) == new_year + timedelta(hours=10)


def test_a_skipped_time_moves_forward_and_is_marked() -> None:
    rule = yearly(3, 29, "00:30", "Asia/Beirut")
    shifted = rule.of_year(2026)
    assert shifted == Occurrence("2026", datetime(2026, 3, 28, 22, 30, tzinfo=UTC), True)
    assert rule.of_year(2027) == Occurrence("2027", datetime(2027, 3, 28, 21, 30, tzinfo=UTC))
    gone = yearly(12, 30, "09:00", "Pacific/Apia").of_year(2011)
    assert gone == Occurrence("2011", datetime(2011, 12, 30, 19, tzinfo=UTC), True)


@pytest.mark.parametrize("year", [-1, 0, 1, 1969, 9001, 10_000, 10**9])
def test_a_year_out_of_range_has_no_moment(year: int) -> None:
    assert yearly(6, 1).of_year(year) is None


def test_the_time_of_day_may_be_a_time_or_a_text() -> None:
    assert yearly(6, 1, time(9, 0, 30)) == yearly(6, 1, "09:00:30")
    assert yearly(6, 1).time == time(9)


@pytest.mark.parametrize(
    ("arguments", "field", "reason"),
    [
        ({"month": 2, "day": 30}, "day", "February has no 30"),
        ({"month": 2, "day": 31}, "day", "February has no 31"),
        ({"month": 4, "day": 31}, "day", "April has no 31"),
        ({"month": 1, "day": 32}, "day", "from 1 to 31"),
        ({"day": 0}, "day", "from 1 to 31"),
        ({"day": -1}, "day", "from 1 to 31"),
        ({"day": "1"}, "day", "from 1 to 31"),
        ({"day": 1.0}, "day", "from 1 to 31"),
        ({"month": 0}, "month", "from 1 to 12"),
        ({"month": 13}, "month", "from 1 to 12"),
        ({"month": True}, "month", "from 1 to 12"),
        ({"month": 10**5000}, "month", "from 1 to 12"),
        ({"month": None}, "month", "from 1 to 12"),
        ({"time": "9:00"}, "time", "write 09:00 or 09:00:30"),
        ({"time": "24:00"}, "time", "write 09:00"),
        ({"time": "09:60"}, "time", "write 09:00"),
        ({"time": "09:00Z"}, "time", "write 09:00"),
        ({"time": "٠٩:٠٠"}, "time", "write 09:00"),
        ({"time": "09:00\n"}, "time", "write 09:00"),
        ({"time": 9}, "time", "write 09:00"),
        ({"time": time(9, tzinfo=UTC)}, "time", "the zone as tz"),
        ({"time": time(9, microsecond=1)}, "time", "hours, minutes and seconds"),
        ({"tz": "Europe/Atlantis"}, "tz", "give an IANA name"),
        ({"tz": None}, "tz", "give an IANA name"),
        ({"feb29": "mar2"}, "feb29", "none of feb28, mar1, skip"),
    ],
    ids=quoted,
)
def test_a_date_that_no_year_has_is_refused(
    arguments: dict[str, Any], field: str, reason: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        yearly(**{"month": 6, "day": 1, **arguments})
    assert refused.value.field == field
    assert reason in refused.value.problem
