"""Rules as values: creation, results, stored form, and errors."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import duly
from duly.domain.time.rules import (
    At,
    Cron,
    Every,
    Occurrence,
    Rule,
    Yearly,
    any_of,
    at,
    cron,
    decode_rule,
    encode_rule,
    every,
    yearly,
)
from duly.errors import InvalidInput, UnreadableRule

pytestmark = pytest.mark.requirement("C2")

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
ZONES = ["UTC", "Europe/Oslo", "America/New_York", "Pacific/Kiritimati", "Asia/Kathmandu"]
EXAMPLES: list[Rule] = [
    cron("0 9 * * MON", "Europe/Oslo"),
    cron("*/15 * * * * *", dst_gap="skip"),
    every(90),
    every("1d", anchor=datetime(2026, 3, 7, 14, tzinfo=UTC)),
    at("2026-11-15T09:00", "America/Vancouver"),
    at("2026-11-15T09:00:00-08:00"),
    yearly(2, 29, "09:00:30", "Asia/Kathmandu", "mar1"),
    yearly(12, 31, "23:59", "Pacific/Kiritimati"),
]

moments = st.datetimes(
    datetime(1970, 1, 2),  # noqa: DTZ001
    datetime(2500, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
crons = st.builds(
    cron,
    st.sampled_from(["0 9 * * *", "30 2 * 3,10 0", "*/20 1-3 * * *", "0 0 29 2 *", "@monthly"]),
    st.sampled_from(ZONES),
    st.sampled_from(["run", "skip"]),
)
intervals = st.builds(every, st.integers(1, 10_000_000), st.none() | moments)
wall_times = st.builds(
    at, moments.map(lambda each: each.replace(tzinfo=None)), st.sampled_from(ZONES)
)
instants = st.builds(at, moments)
anniversaries = st.builds(
    yearly,
    st.integers(1, 12),
    st.integers(1, 29),
    st.times().map(lambda each: each.replace(microsecond=0)),
    st.sampled_from(ZONES),
    st.sampled_from(["feb28", "mar1", "skip"]),
)
combined = st.builds(
    lambda zone, parts: any_of(*[cron(each, zone) for each in parts], every(7000)),
    st.sampled_from(ZONES),
    st.sets(
        st.sampled_from(["0 9 * * *", "*/20 1-3 * * *", "30 2 * 3,10 0", "0 */9 1 * *"]), min_size=1
    ),
)
rules = st.one_of(crons, intervals, wall_times, instants, anniversaries, combined)


@given(rules)
def test_a_rule_is_the_same_after_it_was_stored(rule: Rule) -> None:
    stored = encode_rule(rule)
    assert decode_rule(stored) == rule
    assert encode_rule(decode_rule(stored)) == stored
    assert json.loads(stored)["kind"] in ("cron", "every", "at", "yearly", "any_of")


@given(rules, moments)
def test_the_next_moment_is_strictly_later_and_in_utc(rule: Rule, moment: datetime) -> None:
    found = rule.next_after(moment)
    if found is None:
        assert isinstance(rule, At)
        assert rule.occurrence().at <= moment
    else:
        assert found > moment
        assert found.tzinfo is UTC
        before = rule.next_after(found - SECOND / 1000)
        assert before == found


@given(rules, moments, st.timedeltas(-DAY, 900 * DAY))
def test_count_and_last_are_those_of_an_iteration(
    rule: Rule, after: datetime, length: timedelta
) -> None:
    if isinstance(rule, Every):
        length = min(length, 200 * rule.interval)
    if isinstance(rule, Cron) and rule.expression.startswith("*"):
        length = min(length, 20 * DAY)
    until = after + length
    walked: list[Occurrence] = []
    for each in rule.occurrences(after):
        if each.at > until:
            break
        walked.append(each)
    assert rule.count(after, until) == len(walked)
    assert rule.last(after, until) == (walked[-1] if walked else None)


@given(rules, moments)
def test_each_moment_has_its_own_identity(rule: Rule, after: datetime) -> None:
    found = list(islice(rule.occurrences(after), 50))
    assert len({each.identity for each in found}) == len({each.at for each in found}) == len(found)
    assert [each.at for each in found] == sorted(each.at for each in found)
    assert rule.preview(50, after=after) == [each.at for each in found]


def test_the_public_module_has_the_four_kinds_of_rules() -> None:
    assert (duly.cron, duly.every, duly.at, duly.yearly) == (cron, every, at, yearly)


@pytest.mark.parametrize("rule", EXAMPLES, ids=encode_rule)
def test_no_rule_fails_at_the_end_of_time(rule: Rule) -> None:
    last_hour = datetime(9999, 12, 31, 23, tzinfo=timezone(-14 * timedelta(hours=1)))
    first_hour = datetime(1, 1, 1, 1, tzinfo=timezone(14 * timedelta(hours=1)))
    end = datetime(9000, 1, 1, tzinfo=UTC)
    for late in (last_hour, datetime.max.replace(tzinfo=UTC), end, end - SECOND / 1000):
        assert rule.next_after(late) is None
        assert rule.preview(3, after=late) == []
        assert rule.count(late, last_hour) == 0
        assert rule.last(late, last_hour) is None
    first = rule.next_after(first_hour)
    assert first is not None
    assert first >= datetime(1970, 1, 1, tzinfo=UTC)
    near_end = rule.last(end - 40 * 366 * DAY, last_hour)
    assert near_end is None if isinstance(rule, At) else near_end and near_end.at < end
    assert rule.count(first_hour, first) == 1


@pytest.mark.parametrize("rule", EXAMPLES, ids=encode_rule)
@pytest.mark.parametrize(
    "moment", [NOON.replace(tzinfo=None), "2026-11-15", None, 5, date.min, DAY]
)
def test_a_moment_without_a_zone_is_refused(rule: Rule, moment: Any) -> None:
    calls_of_fields: dict[str, list[Callable[[], object]]] = {
        "moment": [lambda: rule.next_after(moment)],
        "after": [
            lambda: rule.preview(1, after=moment),
            lambda: rule.occurrences(moment),
            lambda: rule.count(moment, NOON),
            lambda: rule.last(moment, NOON),
        ],
        "until": [lambda: rule.count(NOON, moment), lambda: rule.last(NOON, moment)],
    }
    for field, calls in calls_of_fields.items():
        for call in calls:
            with pytest.raises(InvalidInput, match="give one, as in") as refused:
                call()
            assert refused.value.field == field


@pytest.mark.parametrize("n", [-1, 10_001, 1.5, "3", None, True])
def test_an_invalid_length_of_a_preview_is_refused(n: Any) -> None:
    with pytest.raises(InvalidInput, match="whole number from 0 to 10000"):
        every(90).preview(n, after=NOON)
    assert every(90).preview(0, after=NOON) == []


@pytest.mark.parametrize(
    ("rule", "zone_name"),
    [
        (cron("* * * * *", "Europe/Oslo"), "Europe/Oslo"),
        (cron("* * * * *"), "UTC"),
        (every(5), None),
        (at("2026-11-15T09:00Z"), None),
        (at("2026-11-15T09:00", "Asia/Tokyo"), "Asia/Tokyo"),
        (yearly(1, 1, tz="Asia/Tokyo"), "Asia/Tokyo"),
    ],
    ids=str,
)
def test_only_wall_times_depend_on_a_zone(rule: Rule, zone_name: str | None) -> None:
    assert rule.zone_name == zone_name
    assert rule.is_wall_time is (zone_name is not None)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "lunar"},
        {"kind": None},
        {"phase": "full"},
        {"dst_gap": "wait"},
        {"tz": "Mars/Olympus"},
        {"expression": "0 9 * * MON 2027"},
        {"expression": "0 9 ? * MON-FRI"},
        {"expression": 5},
    ],
    ids=str,
)
def test_a_rule_of_a_newer_version_is_reported_and_never_guessed(
    change: dict[str, Any],
) -> None:
    stored = {**json.loads(encode_rule(cron("0 9 * * MON", "Europe/Oslo"))), **change}
    text = json.dumps(stored)
    with pytest.raises(UnreadableRule, match="this version cannot read") as unreadable:
        decode_rule(text)
    assert unreadable.value.stored == text
    assert unreadable.value.problem


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "{",
        "[]",
        "{}",
        "\ud800",
        '{"kind":"every","interval":"PT0S"}',
        '{"kind":"every","interval":"PT90S","anchor":"2026-11-15T09:00:00"}',
        '{"kind":"at","moment":"2026-11-15T09:00:00","tz":null}',
        '{"kind":"yearly","month":2,"day":30,"time":"09:00:00"}',
        '{"kind":"yearly","month":2,"day":28,"time":"09:00:00Z"}',
    ],
)
def test_an_invalid_text_is_not_a_rule(text: str) -> None:
    with pytest.raises(UnreadableRule):
        decode_rule(text)


def test_the_stored_forms_do_not_change() -> None:
    assert [encode_rule(rule) for rule in EXAMPLES] == [
        '{"kind":"cron","expression":"0 9 * * MON","tz":"Europe/Oslo","dst_gap":"run"}',
        '{"kind":"cron","expression":"*/15 * * * * *","tz":"UTC","dst_gap":"skip"}',
        '{"kind":"every","interval":"PT90S","anchor":"1970-01-01T00:00:00Z"}',
        '{"kind":"every","interval":"P1D","anchor":"2026-03-07T14:00:00Z"}',
        '{"kind":"at","moment":"2026-11-15T09:00:00","tz":"America/Vancouver"}',
        '{"kind":"at","moment":"2026-11-15T17:00:00Z","tz":null}',
        '{"kind":"yearly","month":2,"day":29,"time":"09:00:30","tz":"Asia/Kathmandu","feb29":"mar1"}',
        '{"kind":"yearly","month":12,"day":31,"time":"23:59:00","tz":"Pacific/Kiritimati",'
        '"feb29":"feb28"}',
    ]


def test_rules_are_immutable_and_comparable() -> None:
    assert (
        len({cron("0 9 * * *"), cron("0  9 * * *"), Cron("0 9 * * *"), every(60), every("1m")}) == 2
    )
    with pytest.raises(AttributeError):
        every(60).interval = DAY  # type: ignore[misc]
    assert isinstance(yearly(1, 1), Yearly)
