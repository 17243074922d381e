"""Rules on business days, compared with a model that looks at every day and every moment."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.domain.time.business_days import (
    BusinessDays,
    Move,
    day_of_number,
    decode_days,
    encode_days,
    number_of_day,
)
from duly.domain.time.cron import pattern
from duly.domain.time.rules import (
    AnyOf,
    At,
    Cron,
    Every,
    Rule,
    any_of,
    at,
    calendar_of,
    cron,
    decode_rule,
    encode_rule,
    every,
    except_,
    with_days,
    yearly,
)
from duly.errors import InvalidInput, UnreadableRule

pytestmark = pytest.mark.requirement("L6")

OSLO = "Europe/Oslo"
BEIRUT = "Asia/Beirut"
"""Its clock falls back from midnight to 23:00 of the day before."""
DAY = timedelta(days=1)
EXPRESSIONS = [
    "0 9 * * *",
    "15,45 2 * * *",
    "30 23 L * *",
    "*/20 1-3 * * SAT",
    "0 0 * * SUN",
    "0 9 1 * *",
    "30 2 25-29 * *",
    "0 */9 * * *",
]
SPRING = datetime(2026, 3, 20, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 16, tzinfo=UTC)
moments = st.builds(
    lambda season, hours: season + timedelta(hours=hours),
    st.sampled_from([SPRING, AUTUMN]),
    st.integers(0, 240),
)
lengths = st.timedeltas(timedelta(0), timedelta(days=20))
dates = st.builds(
    lambda season, days: (season + days * DAY).date(),
    st.sampled_from([SPRING, AUTUMN]),
    st.integers(-10, 40),
)
calendars = st.builds(
    BusinessDays,
    st.lists(st.integers(1, 7), min_size=1, max_size=3, unique=True).map(tuple),
    st.dictionaries(dates, st.just("closed"), max_size=20),
)
moves = st.sampled_from(["skip", "next", "previous"])


def on(rule: Rule, days: BusinessDays, move: Move = "skip", tz: str | None = None) -> Rule:
    return with_days(except_(rule, "nrw", move, tz=tz), days)


def model_of_cron(
    rule: Cron, days: BusinessDays, move: Move, first: date, last: date
) -> Iterator[datetime]:
    """Each day's wall times, taken to the day to which the calendar moves them."""
    plain, day = pattern(rule.expression), first
    while day <= last:
        target = days.moved(number_of_day(day), move)
        begins = number_of_day(day) * 86_400
        found = plain.next(begins)
        while target is not None and found < begins + 86_400:
            wall = datetime.combine(day_of_number(target), datetime.min.time())
            yield from instants(rule, wall + timedelta(seconds=found - begins))
            found = plain.next(found + 1)
        day += DAY


def instants(rule: Cron, wall: datetime) -> Iterator[datetime]:
    """The rules R3 and R4 of clock changes, by asking the zone at every minute."""
    tz, is_fixed = ZoneInfo(rule.tz), pattern(rule.expression).fields.is_fixed
    both = sorted({wall.replace(tzinfo=tz, fold=fold).astimezone(UTC) for fold in (0, 1)})
    real = [each for each in both if each.astimezone(tz).replace(tzinfo=None) == wall]
    if real:
        yield from real[:1] if is_fixed else real
    elif is_fixed and rule.dst_gap == "run":
        moment = min(both)
        while moment.astimezone(tz).replace(tzinfo=None) < wall:
            moment += timedelta(minutes=1)
        yield moment


def check(rule: Rule, expected: list[datetime], after: datetime, until: datetime) -> None:
    found = list(rule._between(after, until))
    assert [each.at for each in found] == expected
    assert len({each.identity for each in found}) == len(expected)
    assert rule.count(after, until) == len(expected)
    last = rule.last(after, until)
    assert (last and last.at) == (expected[-1] if expected else None)
    assert rule.preview(3, after=after)[: len(expected)] == expected[:3]
    if expected:
        assert rule.next_after(after) == expected[0]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(EXPRESSIONS),
    st.sampled_from([OSLO, BEIRUT]),
    st.sampled_from(["run", "skip"]),
    calendars,
    moves,
    moments,
    lengths,
)
def test_cron_moments_on_closed_days_are_left_out_or_moved(
    expression: str,
    tz: str,
    dst_gap: str,
    days: BusinessDays,
    move: Move,
    after: datetime,
    length: timedelta,
) -> None:
    plain, until = Cron(expression, tz, dst_gap), after + length  # type: ignore[arg-type]
    first, last = (after - 60 * DAY).date(), (until + 60 * DAY).date()
    found = set(model_of_cron(plain, days, move, first, last))
    check(
        on(plain, days, move), sorted(each for each in found if after < each <= until), after, until
    )


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["1h", "7000s", "1d", "26h"]),
    st.sampled_from([OSLO, BEIRUT]),
    calendars,
    moments,
    lengths,
)
def test_intervals_are_left_out_on_closed_days(
    interval: str, tz: str, days: BusinessDays, after: datetime, length: timedelta
) -> None:
    plain, until = every(interval), after + length
    expected = [
        each.at
        for each in plain._between(after, until)
        if not days.is_closed(number_of_day(each.at.astimezone(ZoneInfo(tz)).date()))
    ]
    check(on(plain, days, tz=tz), expected, after, until)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(1, 28),
    st.dictionaries(st.dates(date(2023, 1, 1), date(2031, 1, 1)), st.just(""), max_size=200),
    moves,
    st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_a_yearly_day_comes_once_for_each_year(
    month: int, day: int, closed: dict[date, str], move: Move, after: datetime
) -> None:
    days = BusinessDays((6, 7), closed)
    rule = on(yearly(month, day, "09:00", OSLO), days, move)
    expected = {}
    for year in range(2022, 2036):
        target = days.moved(number_of_day(date(year, month, day)), move)
        if target is not None:
            nine = datetime.combine(day_of_number(target), datetime.min.time()) + timedelta(hours=9)
            moment = nine.replace(tzinfo=ZoneInfo(OSLO)).astimezone(UTC)
            if moment > after:
                expected[str(year)] = moment
    found = rule.occurrences(after)
    assert {each.identity: each.at for each, _ in zip(found, range(3), strict=False)} == dict(
        sorted(expected.items(), key=lambda each: each[1])[:3]
    )


def test_a_yearly_day_may_be_moved_far_into_the_next_year() -> None:
    closed = {date(2026, 12, 20) + number * DAY: "" for number in range(200)}
    rule = on(yearly(12, 25, "09:00", OSLO), BusinessDays((6, 7), closed), "next")
    found = next(rule.occurrences(datetime(2027, 7, 1, tzinfo=UTC)))
    assert (found.identity, found.at) == ("2026", datetime(2027, 7, 8, 7, tzinfo=UTC))


def test_any_of_and_except_can_be_nested_both_ways() -> None:
    days = BusinessDays((6, 7), {date(2026, 12, 25): "Christmas"})
    nine, ten = cron("0 9 * * *", OSLO), cron("0 10 * * SAT", OSLO)
    after, until = datetime(2026, 12, 20, tzinfo=UTC), datetime(2027, 1, 4, tzinfo=UTC)
    inner = with_days(any_of(except_(nine, "nrw"), ten), days)
    expected = {each.at for each in on(nine, days)._between(after, until)}
    expected |= {each.at for each in ten._between(after, until)}
    check(inner, sorted(expected), after, until)
    outer = on(any_of(nine, ten, every("1d")), days)
    assert outer == with_days(
        any_of(except_(nine, "nrw"), except_(ten, "nrw"), except_(every("1d"), "nrw", tz=OSLO)),
        days,
    )
    assert outer.count(after, until) == 9 + 10


def test_the_last_business_day_of_the_month() -> None:
    rule = on(cron("0 17 L * *", OSLO), BusinessDays(), "previous")
    found = rule.preview(3, after=datetime(2027, 1, 1, tzinfo=UTC))
    assert [each.date() for each in found] == [
        date(2027, 1, 29),
        date(2027, 2, 26),
        date(2027, 3, 31),
    ]


def test_dense_rules_and_long_stretches_are_bounded() -> None:
    closed = {date(2026, 1, 1) + number * DAY: "" for number in range(290)}
    days = BusinessDays((6, 7), closed)
    year = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    open_days = sum(
        not days.is_closed(number_of_day(date(2026, 1, 1) + n * DAY)) for n in range(365)
    )
    for rule in (cron("* * * * * *"), every("1s")):
        assert abs(on(rule, days).count(*year) - open_days * 86_400) <= 1
    assert on(every("1s"), days).next_after(year[0]) == datetime(2026, 10, 19, tzinfo=UTC)


def test_a_single_moment_is_moved_and_keeps_its_identity() -> None:
    plain = at("2026-12-26T09:00", OSLO)
    moved = on(plain, BusinessDays(), "next")
    assert isinstance(moved, At)
    assert moved.occurrence().identity == plain.occurrence().identity
    assert moved.occurrence().at == datetime(2026, 12, 28, 8, tzinfo=UTC)


def test_a_moved_time_that_the_clock_skips_follows_the_rule_of_its_kind() -> None:
    # Saturday 28 March 2026 is moved to Sunday, when the clock goes from 2:00 to 3:00.
    days = BusinessDays((6,))
    after = datetime(2026, 3, 27, 12, tzinfo=UTC)
    run = on(cron("30 2 28 3 *", OSLO), days, "next")
    assert run.next_after(after) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    year = on(yearly(3, 28, "02:30", OSLO), days, "next")
    assert year.next_after(after) == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    dropped = on(cron("30 2 28 3 *", OSLO, dst_gap="skip"), days, "next")
    assert dropped.next_after(after) != datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_a_rule_that_is_never_open_ends() -> None:
    rule = on(cron("0 9 * * SAT"), BusinessDays())
    assert rule.next_after(SPRING) is None
    assert on(every("7d", SPRING + DAY), BusinessDays()).next_after(SPRING) is None


def test_the_days_are_stored_apart_from_the_rule() -> None:
    days = BusinessDays((5, 6), {date(2026, 12, 25): "Christmas"})
    rule = on(any_of(cron("0 9 * * *", OSLO), every("1h")), days)
    stored = encode_rule(rule)
    assert "Christmas" not in stored
    assert decode_rule(stored, encode_days(days)) == rule
    assert calendar_of(rule) == "nrw"
    assert decode_days(encode_days(days)) == days
    with pytest.raises(UnreadableRule, match="calendar is missing"):
        decode_rule(stored)


def test_rules_without_a_calendar_are_stored_as_before() -> None:
    assert encode_rule(cron("0 9 * * *")) == (
        '{"kind":"cron","expression":"0 9 * * *","tz":"UTC","dst_gap":"run"}'
    )


def test_a_name_alone_has_no_moments() -> None:
    with pytest.raises(InvalidInput, match=r"only the name 'nrw' is known here"):
        except_(cron("0 9 * * *"), "nrw").next_after(SPRING)


@pytest.mark.parametrize(
    ("make", "field", "reason"),
    [
        (lambda: except_(cron("0 9 * * *"), "nrw", "later"), "move", "skip, next, previous"),  # type: ignore[arg-type]
        (lambda: except_(cron("0 9 * * *"), ""), "calendar", "is not a name"),
        (lambda: except_(every("1h"), "nrw", "next"), "move", "an interval is left out"),
        (lambda: except_(at("2026-12-26T09:00", OSLO), "nrw"), "move", "next or previous"),
        (lambda: except_(at("2026-12-26T09:00Z"), "nrw", "next"), "calendar", "is an instant"),
        (lambda: except_(cron("0 9 * * *"), "nrw", tz=OSLO), "tz", "has the zone UTC"),
        (lambda: except_(except_(cron("0 9 * * *"), "a"), "b"), "rule", "a calendar already"),
        (lambda: except_("0 9 * * *", "a"), "rule", "is no rule"),  # type: ignore[type-var]
        (
            lambda: any_of(except_(cron("0 9 * * *"), "a"), except_(cron("0 8 * * *"), "b")),
            "calendar",
            "the same calendar",
        ),
        (lambda: BusinessDays(()), "closed", "closes no day"),
        (lambda: BusinessDays(tuple(range(1, 8))), "weekend", "no business day"),
        (
            lambda: BusinessDays((), {date(2026, 1, 1) + n * DAY: "" for n in range(301)}),
            "closed",
            "closed for 301 days",
        ),
        (
            lambda: BusinessDays((), {date(2026, 1, 1) + n * 2 * DAY: "" for n in range(2001)}),
            "closed",
            "at most 2000",
        ),
        (lambda: BusinessDays((), {date(9000, 1, 1): ""}), "closed", "between 1970 and 9000"),
        (lambda: BusinessDays((), {date(2026, 1, 1): "a\nb"}), "closed", "cannot be printed"),
    ],
)
def test_bad_input_is_refused(make, field: str, reason: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidInput) as refused:
        make()
    assert refused.value.field == field
    assert reason in refused.value.problem


def test_rules_are_described_with_their_calendar() -> None:
    both = any_of(cron("0 9 * * *", OSLO), cron("30 17 * * FRI", OSLO))
    assert isinstance(both, AnyOf)
    assert except_(both, "nrw").describe() == (
        "at 09:00 every day, or at 17:30 on Friday, Europe/Oslo, not on closed days of nrw"
    )
    first, second = both.rules
    assert isinstance(first, Cron | Every)
    assert any_of(except_(first, "nrw", "next"), second).describe() == (
        "at 09:00 every day, moved to the next business day of nrw, or at 17:30 on Friday, "
        "Europe/Oslo"
    )
