"""`every`: elapsed time from an anchor. Cron has its own files."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from duly.domain.time.rules import every
from duly.errors import InvalidInput, quoted

pytestmark = pytest.mark.requirement("C2")

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)


@pytest.mark.parametrize(
    ("interval", "seconds"),
    [
        (90, 90),
        (1, 1),
        (1.5, 1.5),
        (2.001, 2.001),
        (timedelta(minutes=15), 900),
        ("90s", 90),
        ("15m", 900),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("1w", 604_800),
        ("1.5h", 5400),
        ("1s500ms", 1.5),
        ("36600d", 36_600 * 86_400),
    ],
)
def test_an_interval_may_be_written_in_several_forms(interval: Any, seconds: float) -> None:
    assert every(interval).interval == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "interval",
    [
        0, -1, 0.5, 0.999, 1.0001, "0s", "999ms", "1.0001s", "", "s", "90", "5 minutes", "-5s",
        "1h-30m", "٣s", "1e3s", "36601d", "999999999999w", "9" * 500 + "s", float("nan"),
        float("inf"), -float("inf"), 1e300, 10**400, 10**5000, True, None, [], timedelta(),
        -DAY, timedelta(microseconds=1_000_001), timedelta.max, timedelta.min, "\0", "\ud800s",
    ],
    ids=quoted,
)  # fmt: skip
def test_an_invalid_interval_is_refused(interval: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        every(interval)
    assert refused.value.field == "interval"


def test_the_default_anchor_is_the_start_of_1970() -> None:
    found = every("1h30m").preview(2, after=datetime(2026, 11, 15, tzinfo=UTC))
    assert found == [NOON.replace(hour=1, minute=30), NOON.replace(hour=3, minute=0)]
    assert every(5) == every(5, anchor="1970-01-01T00:00Z")


def test_the_anchor_applies_to_moments_before_it_too() -> None:
    anchor = datetime(2026, 11, 20, 14, 0, 7, tzinfo=UTC)
    rule = every("2d", anchor)
    assert rule.next_after(NOON) == datetime(2026, 11, 16, 14, 0, 7, tzinfo=UTC)
    assert rule.next_after(anchor - SECOND) == anchor
    assert rule.next_after(anchor) == anchor + 2 * DAY


def test_an_anchor_is_an_instant_cut_to_milliseconds() -> None:
    given = datetime(2026, 11, 15, 9, 0, 0, 123_987, tzinfo=timezone(timedelta(hours=1)))
    assert every(5, given).anchor == datetime(2026, 11, 15, 8, 0, 0, 123_000, tzinfo=UTC)
    occurrence = next(every(5, given).occurrences(NOON))
    assert occurrence.identity == "2026-11-15T12:00:00.123000Z"


@pytest.mark.parametrize("anchor", [NOON.replace(tzinfo=None), "2026-11-15T09:00", "x", 5])
def test_an_anchor_without_a_zone_is_refused(anchor: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        every(5, anchor)
    assert refused.value.field == "anchor"


def test_every_never_drifts() -> None:
    rule = every(7.001)
    late = datetime(2499, 1, 1, tzinfo=UTC)
    found = rule.next_after(late)
    assert found is not None
    assert (found - datetime(1970, 1, 1, tzinfo=UTC)) % timedelta(seconds=7.001) == timedelta()


def test_a_year_of_seconds_is_counted_without_iteration() -> None:
    assert every(1).count(NOON, NOON + 365 * DAY) == 365 * 86_400
    assert (
        every(1).count(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
        == (datetime(9000, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // SECOND
    )
