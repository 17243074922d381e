"""Cron: the meaning of the fields, clock changes, and invalid expressions."""

import os
import random
import time
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest

from duly.domain.time.rules import Cron, Every, cron
from duly.errors import InvalidInput
from tests.domain.expressions import expression
from tests.domain.oracle import Naive, a_place, cases, runs

pytestmark = pytest.mark.requirement("C2")

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
CASES = int(os.environ.get("DULY_TEST_CRON", "1500"))


def rule(text: str, tz: str = "UTC", dst_gap: str = "run") -> Cron:
    made = cron(text, tz, dst_gap)  # type: ignore[arg-type]
    assert isinstance(made, Cron)
    return made


def moments(text: str, tz: str, after: str, n: int, dst_gap: str = "run") -> list[str]:
    found = rule(text, tz, dst_gap).preview(n, after=datetime.fromisoformat(after))
    return [f"{each:%m-%d %H:%M}" for each in found]


def days_of_january(text: str) -> list[int]:
    """The days of January 2026, which begins on a Thursday."""
    made = rule(f"0 0 {text}")
    found = made.preview(31, after=NEW_YEAR - SECOND)
    return [each.day for each in found if (each.year, each.month) == (2026, 1)]


@pytest.mark.parametrize(
    ("fields", "days"),
    [
        ("1 * *", [1]),
        ("01,31 * *", [1, 31]),
        ("1-3 1 *", [1, 2, 3]),
        ("*/10 * *", [1, 11, 21, 31]),
        ("5-20/7 * *", [5, 12, 19]),
        ("25/3 JAN *", [25, 28, 31]),
        ("L * *", [31]),
        ("LW * *", [30]),
        ("1,L,LW * *", [1, 30, 31]),
        ("* * 0", [4, 11, 18, 25]),
        ("* * 7", [4, 11, 18, 25]),
        ("* * sun", [4, 11, 18, 25]),
        ("* * SAT,SUN", [3, 4, 10, 11, 17, 18, 24, 25, 31]),
        ("* * 6-7", [3, 4, 10, 11, 17, 18, 24, 25, 31]),
        ("* * SAT-SUN", [3, 4, 10, 11, 17, 18, 24, 25, 31]),
        ("* * SUN-MON", [4, 5, 11, 12, 18, 19, 25, 26]),
        ("* * */3", [3, 4, 7, 10, 11, 14, 17, 18, 21, 24, 25, 28, 31]),
        ("* * 5/2", [2, 4, 9, 11, 16, 18, 23, 25, 30]),
        ("* * 1L", [26]),
        ("* * FRIL", [30]),
        ("* * 7L", [25]),
        ("* * 4#1", [1]),
        ("* * THU#5", [29]),
        ("* * 7#2,1L", [11, 26]),
        # Either of the two day fields is enough, unless one starts with a star.
        ("15 * MON", [5, 12, 15, 19, 26]),
        ("L * 1#1", [5, 31]),
        ("*/2 * MON", [5, 19]),
        ("1-7 * */7", [4]),
        ("*,1 * MON", [5, 12, 19, 26]),
        ("1-31 * MON", list(range(1, 32))),
        ("1 * 0-6", list(range(1, 32))),
        ("* 2 *", []),
    ],
)
def test_the_day_fields_select_their_days(fields: str, days: list[int]) -> None:
    assert days_of_january(fields) == days


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("30 9 * * *", ["09:30:00"]),
        ("0,30 9-10 * * *", ["09:00:00", "09:30:00", "10:00:00", "10:30:00"]),
        ("*/25 0 * * *", ["00:00:00", "00:25:00", "00:50:00"]),
        ("0 8-18/5 * * *", ["08:00:00", "13:00:00", "18:00:00"]),
        ("50/5 23 * * *", ["23:50:00", "23:55:00"]),
        ("0 0 12 * * *", ["12:00:00"]),
        ("15,45 59 23 * * *", ["23:59:15", "23:59:45"]),
        ("*/20 30 6 * * *", ["06:30:00", "06:30:20", "06:30:40"]),
    ],
)
def test_the_time_fields_select_their_times(text: str, times: list[str]) -> None:
    found = rule(text).occurrences(NEW_YEAR - SECOND)
    today = [each.at for each in islice(found, len(times) + 1) if each.at < NEW_YEAR + DAY]
    assert [f"{each:%H:%M:%S}" for each in today] == times


@pytest.mark.parametrize(
    ("nickname", "fields"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@Midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("  @ANNUALLY ", "0 0 1 1 *"),
        (" 0  9\t* jan-Mar  mon ", "0 9 * JAN-MAR MON"),
    ],
)
def test_equal_expressions_are_stored_in_the_same_form(nickname: str, fields: str) -> None:
    assert rule(nickname, "Europe/Oslo") == rule(fields, "Europe/Oslo")
    assert rule(nickname).expression == fields


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("@every 90s", 90), ("@every 1h30m", 5400), ("@EVERY 1H 30M", 5400), ("@every 2d", 172_800)],
)
def test_every_is_an_interval_in_any_zone(text: str, seconds: int) -> None:
    for tz in ("UTC", "Europe/Oslo"):
        assert cron(text, tz) == Every(timedelta(seconds=seconds))


NEW_YORK, APIA = "America/New_York", "Pacific/Apia"


@pytest.mark.parametrize(
    ("text", "tz", "after", "expected"),
    [
        # Forward: from 02:00 to 03:00 at 07:00Z on 8 March 2026.
        ("30 2 * * *", NEW_YORK, "2026-03-08T06:59Z", ["03-08 07:00", "03-09 06:30"]),
        ("30 2 * * *", NEW_YORK, "2026-03-08T07:00Z", ["03-09 06:30", "03-10 06:30"]),
        ("0-59/20 2 * * *", NEW_YORK, "2026-03-08T06:00Z", ["03-08 07:00", "03-09 06:00"]),
        ("30 2 8 3 *", NEW_YORK, "2026-03-01T00:00Z", ["03-08 07:00", "03-08 07:30"]),
        ("*/30 2 * * *", NEW_YORK, "2026-03-08T06:00Z", ["03-09 06:00", "03-09 06:30"]),
        ("15 30 2 * * *", NEW_YORK, "2026-03-08T06:00Z", ["03-08 07:00", "03-09 06:30"]),
        # Back: from 02:00 to 01:00 at 06:00Z on 1 November 2026.
        ("30 1 * * *", NEW_YORK, "2026-11-01T05:00Z", ["11-01 05:30", "11-02 06:30"]),
        ("30 1 * * *", NEW_YORK, "2026-11-01T05:30Z", ["11-02 06:30", "11-03 06:30"]),
        ("30 1 * * *", NEW_YORK, "2026-11-01T06:00Z", ["11-02 06:30", "11-03 06:30"]),
        ("0 2 * * *", NEW_YORK, "2026-11-01T05:00Z", ["11-01 07:00", "11-02 07:00"]),
        ("50 * 1 11 *", NEW_YORK, "2026-11-01T05:00Z", ["11-01 05:50", "11-01 06:50"]),
        ("50 * 1 11 *", NEW_YORK, "2026-11-01T05:55Z", ["11-01 06:50", "11-01 07:50"]),
        ("*/30 1 1 11 *", NEW_YORK, "2026-11-01T05:30Z", ["11-01 06:00", "11-01 06:30"]),
        # A repeated hour at the end of one of the eras into which time is divided.
        ("30 1 * * *", "America/Chicago", "3932-11-06T07:10Z", ["11-07 07:30", "11-08 07:30"]),
        # Samoa had no 30 December in 2011: at 10:00Z it was the 31st.
        ("0 9 30 12 *", APIA, "2011-12-01T00:00Z", ["12-30 10:00", "12-29 19:00"]),
        ("0 9 * * *", APIA, "2011-12-29T00:00Z", ["12-29 19:00", "12-30 10:00"]),
        ("0 * 30 12 *", APIA, "2011-12-01T00:00Z", ["12-29 10:00", "12-29 11:00"]),
        # Troll changes by two hours.
        ("30 1,2 * * *", "Antarctica/Troll", "2026-03-29T00:00Z", ["03-29 01:00", "03-29 23:30"]),
        # Lord Howe by half an hour.
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T14:00Z", ["04-04 14:45", "04-05 15:15"]),
    ],
)
def test_a_clock_change_neither_loses_nor_repeats_a_run(
    text: str, tz: str, after: str, expected: list[str]
) -> None:
    assert moments(text, tz, after, 2) == expected


def test_a_skipped_time_is_dropped_on_request() -> None:
    assert moments("30 2 * * *", NEW_YORK, "2026-03-08T00:00Z", 1, "skip") == ["03-09 06:30"]
    assert moments("0 9 30 12 *", APIA, "2011-12-01T00:00Z", 1, "skip") == ["12-29 19:00"]
    assert moments("0 2,3 * * *", NEW_YORK, "2026-03-08T00:00Z", 1, "skip") == ["03-08 07:00"]


def test_a_run_that_was_moved_out_of_a_gap_is_marked() -> None:
    after = datetime(2026, 3, 8, tzinfo=UTC)
    moved, plain = islice(rule("30 2 * * *", NEW_YORK).occurrences(after), 2)
    assert (moved.identity, moved.shifted) == ("2026-03-08T07:00:00Z", True)
    assert (plain.identity, plain.shifted) == ("2026-03-09T06:30:00Z", False)
    real = next(rule("0 2,3 * * *", NEW_YORK).occurrences(after))
    assert (real.identity, real.shifted) == ("2026-03-08T07:00:00Z", False)


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ("61 * * * *", "minute", "61 is outside 0-59"),
        ("60 * * * * *", "second", "60 is outside 0-59"),
        ("* 24 * * *", "hour", "24 is outside 0-23"),
        ("* * 0 * *", "day of month", "0 is outside 1-31"),
        ("* * 32 * *", "day of month", "32 is outside 1-31"),
        ("* * * 13 *", "month", "13 is outside 1-12"),
        ("* * * 0 *", "month", "0 is outside 1-12"),
        ("* * * * 8", "day of week", "8 is outside 0-7"),
        ("99999999999999999999 * * * *", "minute", "outside"),
        ("-1 * * * *", "minute", "'' is no number from 0 to 59"),
        ("1.5 * * * *", "minute", "'1.5' is no number"),
        ("MON * * * *", "minute", "'MON' is no number"),
        ("* * * MON *", "month", "nor a name such as FEB"),
        ("* * * * JAN", "day of week", "nor a name such as MON"),
        ("* * * * MONDAY", "day of week", "'MONDAY' is no number"),
        ("1,,2 * * * *", "minute", "'' is no number"),
        (", * * * *", "minute", "'' is no number"),
        ("? * * * *", "minute", "'?' is no number"),
        ("** * * * *", "minute", "'**' is no number"),
        ("50-10 * * * *", "minute", "runs backwards; write 50-59,0-10"),
        ("* 22-6 * * *", "hour", "runs backwards; write 22-23,0-6"),
        ("* * * NOV-FEB *", "month", "runs backwards"),
        ("* * * * SAT-MON", "day of week", "runs backwards"),
        ("* * * * 5-0", "day of week", "runs backwards"),
        ("1-2-3 * * * *", "minute", "'2-3' is no number"),
        ("1- * * * *", "minute", "'' is no number"),
        ("*-5 * * * *", "minute", "'*' is no number"),
        ("*/0 * * * *", "minute", "step '0'"),
        ("*/ * * * *", "minute", "step ''"),
        ("*/x * * * *", "minute", "step 'X'"),
        ("*/-2 * * * *", "minute", "step '-2'"),
        ("*/2/2 * * * *", "minute", "step '2/2'"),
        ("*/61 * * * *", "minute", "the step 61 is longer than the whole of 0-59"),
        ("* */25 * * *", "hour", "the step 25"),
        ("L * * * *", "minute", "'L' is no number"),
        ("* * * L *", "month", "'L' is no number"),
        ("* * * * L", "day of week", "L needs a weekday before it"),
        ("* * L-3 * *", "day of month", "'L' is no number"),
        ("* * 15W * *", "day of month", "'15W' is no number"),
        ("* * W * *", "day of month", "'W' is no number"),
        ("* * 5L * *", "day of month", "'5L' is no number"),
        ("* * * * 8L", "day of week", "8 is outside 0-7"),
        ("* * * * 1#0", "day of week", "needs a number from 1 to 5 after #"),
        ("* * * * 1#6", "day of week", "needs a number from 1 to 5 after #"),
        ("* * * * #1", "day of week", "'' is no number"),
        ("* * * * 1-5#2", "day of week", "'1-5' is no number"),
        ("0 0 30 2 *", "expression", "names no day in 50 years"),
        ("0 0 31 4,6,9,11 *", "expression", "names no day in 50 years"),
        ("0 0 30-31 2 */2", "expression", "names no day in 50 years"),
        ("", "expression", "has 0 fields; give 5 fields"),
        ("* * * *", "expression", "has 4 fields"),
        ("* * * * * * *", "expression", "has 7 fields"),
        ("@reboot", "expression", "'@reboot' is not known; take one of @hourly"),
        ("@", "expression", "is not known"),
        ("@daily 5", "expression", "is not known"),
        ("@every", "interval", "'' is no duration"),
        ("@every soon", "interval", "'soon' is no duration"),
        ("@every 0s", "interval", "is not from 1 second to 100 years"),
        ("٣ * * * *", "expression", "is not a cron expression"),
        ("\ud800 * * * *", "expression", "is not a cron expression"),
        ("\0 * * * *", "minute", "is no number"),
        (",".join(["1"] * 600) + " * * * *", "expression", "longer than 1000 characters"),
        (None, "expression", "None is not a cron expression"),
        (5, "expression", "5 is not a cron expression"),
        (["*"], "expression", "is not a cron expression"),
    ],
)
def test_an_invalid_expression_is_refused_with_its_field_and_a_reason(
    text: str, field: str, reason: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        cron(text)
    assert refused.value.field == field
    assert reason in refused.value.problem


def test_an_invalid_zone_or_option_is_refused() -> None:
    for make, field in (
        (lambda: cron("* * * * *", tz="Europe/Atlantis"), "tz"),
        (lambda: cron("@every 5m", tz="Europe/Atlantis"), "tz"),
        (lambda: cron("* * * * *", tz=None), "tz"),  # type: ignore[arg-type]
        (lambda: cron("* * * * *", dst_gap="late"), "dst_gap"),  # type: ignore[arg-type]
        (lambda: Cron("0 9 * *  *"), "expression"),
        (lambda: Cron("61 * * * *"), "minute"),
    ):
        with pytest.raises(InvalidInput) as refused:
            make()
        assert refused.value.field == field


def test_a_rare_day_is_found_however_far_it_is() -> None:
    leap_sundays = rule("0 0 */28 2 SUN#5").preview(3, after=datetime(2088, 2, 28, tzinfo=UTC))
    assert [f"{each:%Y-%m-%d}" for each in leap_sundays] == [
        "2088-02-29",
        "2128-02-29",
        "2156-02-29",
    ]
    assert rule("0 0 29 2 *").next_after(datetime(2096, 3, 1, tzinfo=UTC)) == datetime(
        2104, 2, 29, tzinfo=UTC
    )


@pytest.mark.parametrize("weekday", range(7))
def test_no_day_that_exists_is_refused(weekday: int) -> None:
    assert rule(f"0 0 */28 2 {weekday}#5").next_after(NEW_YEAR) is not None


def test_the_oracle_knows_the_rules() -> None:
    spring, autumn = datetime(2026, 3, 8, tzinfo=UTC), datetime(2026, 11, 1, 5, tzinfo=UTC)
    assert seen("30 2 * * *", spring) == [("08 07:00", True), ("09 06:30", False)]
    assert seen("*/7 2 8 3 *", spring) == []
    assert seen("30 1 * * *", autumn) == [("01 05:30", False), ("02 06:30", False)]
    assert seen("30 */25 1 11 *", autumn) == []
    assert seen("30 */1 1 11 0", autumn)[:2] == [("01 05:30", False), ("01 06:30", False)]


def seen(text: str, begin: datetime) -> list[tuple[str, bool]]:
    place = a_place(NEW_YORK, begin, 2 * DAY, timedelta(minutes=1))
    return [(f"{at:%d %H:%M}", made_up) for at, made_up in runs(Naive(text), place, makes_up=True)]


@pytest.mark.long
def test_a_comparison_second_by_second_finds_no_difference() -> None:
    problems = [f"{case}: {problem}" for case, problem in islice(cases(7), CASES) if problem]
    assert problems == []


def test_a_comparison_day_by_day_finds_no_difference() -> None:
    chance = random.Random(3)
    for _ in range(200):
        around = (
            datetime(chance.randint(1970, 2090), 1, 1, tzinfo=UTC) + chance.randrange(365) * DAY
        )
        fields = expression(chance, around, by_second=False).split()[2:]
        naive = Naive(f"0 12 {' '.join(fields)}")
        start = around.date()
        wanted = [day for each in range(800) if naive.takes_day(day := start + each * DAY)]
        if wanted:
            assert dates(naive, " ".join(fields), start, len(wanted)) == wanted, fields


def dates(naive: Naive, fields: str, start: date, n: int) -> list[date]:
    made = rule(f"0 12 {fields}")
    midnight = datetime(start.year, start.month, start.day, tzinfo=UTC)
    found = made.preview(n, after=midnight)
    assert made.count(midnight, midnight + 800 * DAY) == n
    return [each.date() for each in found]


@pytest.mark.parametrize(
    ("text", "days", "count"),
    [
        ("* * * * * *", 30, 30 * 86_400),
        ("* * * * * *", 365, 365 * 86_400),
        ("* * * * *", 3650, 3650 * 1440),
        ("* * * 1-6 * 1-5", 3650, None),
    ],
)
def test_counting_takes_no_longer_for_frequent_runs(
    text: str, days: int, count: int | None
) -> None:
    made = rule(text, "Europe/Oslo")
    until = NEW_YEAR + days * DAY
    made.count(NEW_YEAR, until)
    started = time.perf_counter()
    assert count in (made.count(NEW_YEAR, until), None)
    assert made.last(NEW_YEAR, until) is not None
    assert time.perf_counter() - started < 0.1


def test_there_is_no_run_between_a_moment_and_itself_or_an_earlier_one() -> None:
    made = rule("* * * * * *", "Europe/Oslo")
    for until in (NEW_YEAR, NEW_YEAR - DAY):
        assert made.count(NEW_YEAR, until) == 0
        assert made.last(NEW_YEAR, until) is None
