"""Moments as whole microseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from duly.domain.moments import all_microseconds, microseconds

LATEST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


def test_a_microsecond_is_not_lost_in_a_far_year() -> None:
    # A float of seconds has no room for it after the year 2255.
    assert microseconds(LATEST) - microseconds(LATEST - timedelta(microseconds=1)) == 1


def test_a_moment_before_1970_is_negative() -> None:
    assert microseconds(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1


def test_the_zone_of_a_moment_does_not_matter() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    there = moment.astimezone(timezone(timedelta(hours=9)))
    assert all_microseconds([moment, there]) == [microseconds(moment)] * 2
