"""Rules made of other rules."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.time.rules import Cron, Every, any_of, at, cron, every, yearly
from duly.errors import InvalidInput

pytestmark = pytest.mark.requirement("L6")

OSLO = "Europe/Oslo"
EXPRESSIONS = [
    "0 9 * * *",
    "*/20 1-3 * * *",
    "30 2 * * *",
    "0 */9 1 * *",
    "0 9 * * MON",
    "0 * * * *",
]
moments = st.datetimes(datetime(2026, 3, 25), datetime(2026, 4, 3), timezones=st.just(UTC))  # noqa: DTZ001
parts = st.lists(
    st.sampled_from([*(cron(each, OSLO) for each in EXPRESSIONS), every("1h"), every("7000s")]),
    min_size=2,
    max_size=4,
    unique_by=repr,
)


@given(parts, moments, st.timedeltas(timedelta(0), timedelta(days=9)))
def test_it_has_each_moment_of_its_rules_once(
    rules: list[Cron | Every], after: datetime, length: timedelta
) -> None:
    until = after + length
    rule = any_of(*rules)
    expected = sorted({found.at for each in rules for found in each._between(after, until)})
    found = list(rule._between(after, until))
    assert [each.at for each in found] == expected
    assert len({each.identity for each in found}) == len(expected)
    assert rule.count(after, until) == len(expected)
    last = rule.last(after, until)
    assert (last and last.at) == (expected[-1] if expected else None)


def test_very_many_moments_are_counted_without_an_enumeration() -> None:
    rule = any_of(cron("* * * * * *"), cron("0 9 * * *"))
    year = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    assert rule.count(*year) == 365 * 86_400 + 365


def test_it_is_described_in_one_sentence_that_is_understood() -> None:
    rule = any_of(cron("0 9 * * *", OSLO), cron("30 17 * * FRI", OSLO))
    described = "at 09:00 every day, or at 17:30 on Friday"
    assert rule.describe() == f"{described}, Europe/Oslo"
    assert cron(described, OSLO) == rule


def test_what_is_combined_already_is_taken_apart() -> None:
    first, second, third = (cron(f"{minute} * * * *") for minute in (1, 2, 3))
    assert any_of(any_of(first, second), third) == any_of(first, second, third)


@pytest.mark.parametrize(
    ("rules", "field", "reason"),
    [
        ([], "any_of", "give 2 to 50 rules, not 0"),
        ([cron("0 9 * * *")], "any_of", "give 2 to 50 rules, not 1"),
        ([every(each) for each in range(1, 53)], "any_of", "not 52"),
        ([cron("0 9 * * *"), cron("0 9 * * *")], "any_of", "given twice"),
        ([cron("0 9 * * *"), cron("0 10 * * *", OSLO)], "tz", "the same time zone"),
        ([cron("0 9 * * *"), at("2026-11-16T09:00", OSLO)], "any_of", "duly.cron and duly.every"),
        ([cron("0 9 * * *"), yearly(2, 29)], "any_of", "duly.cron and duly.every"),
        ([cron("0 9 * * *"), "0 10 * * *"], "any_of", "duly.cron and duly.every"),
    ],
)
def test_bad_input_is_refused(rules: list[Cron], field: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        any_of(*rules)
    assert refused.value.field == field
    assert reason in refused.value.problem
