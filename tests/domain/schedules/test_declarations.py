"""The options of a schedule: normalized, or refused with their field."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from duly.domain.schedules.options import checked_options, contents, timing
from duly.domain.schedules.schedule import LARGEST_CAP, Contents, ScheduleTiming
from duly.domain.time.rules import cron
from duly.errors import InvalidInput
from duly.records import retry_plan
from duly.records.schedule import DEFAULT_CAP, CatchUp, Overlap, ScheduleOptions

RULE = cron("0 9 * * *")
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
LIMIT = 1000


def declared(**options: Any) -> tuple[ScheduleTiming, Contents]:
    given = checked_options(options)
    return timing(RULE, given), contents("mail", {"team": 7}, given, LIMIT)


@pytest.mark.requirement("C3", "C4")
def test_omitted_options_have_defaults() -> None:
    assert declared() == (
        ScheduleTiming(
            rule=RULE,
            catch_up=CatchUp.LATEST,
            window=None,
            cap=DEFAULT_CAP,
            overlap=Overlap.ALLOW,
            starts_at=None,
            ends_at=None,
            max_runs=None,
            jitter=0.0,
        ),
        Contents(target="mail", payload=b'{"team":7}', priority=5),
    )


@pytest.mark.requirement("C3", "C4")
def test_every_option_is_normalized() -> None:
    oslo = timezone(timedelta(hours=1))
    when, what = declared(
        catch_up="all",
        window="6h",
        cap=12,
        overlap="queue",
        start=NOON.astimezone(oslo),
        end=NOON + timedelta(days=1),
        max_runs=3,
        jitter=timedelta(minutes=5),
        expires_after="1h30m",
        retry=retry_plan.no_retry,
        priority=8,
        tags=["red", "green", "red"],
    )
    assert when == ScheduleTiming(
        rule=RULE,
        catch_up=CatchUp.ALL,
        window=21_600.0,
        cap=12,
        overlap=Overlap.QUEUE,
        starts_at=NOON,
        ends_at=NOON + timedelta(days=1),
        max_runs=3,
        jitter=300.0,
    )
    assert when.starts_at is not None
    assert when.starts_at.tzinfo is UTC
    assert what == Contents(
        target="mail",
        payload=b'{"team":7}',
        priority=8,
        expires_after=5400.0,
        retry='{"type":"none"}',
        tags=("red", "green"),
    )


@pytest.mark.requirement("C4")
def test_start_and_end_may_be_the_same_moment() -> None:
    when, _ = declared(start=NOON, end=NOON)
    assert when.starts_at == when.ends_at == NOON


def test_no_payload_is_not_the_same_as_the_payload_null() -> None:
    options = ScheduleOptions()
    assert contents("mail", None, options, LIMIT).payload is None
    assert contents("mail", 0, options, LIMIT).payload == b"0"
    assert contents("mail", [], options, LIMIT).payload == b"[]"


BAD: list[tuple[str, Any, str]] = [
    ("catch_up", "some", "'some' is none of all, latest, skip"),
    ("catch_up", None, "none of all, latest, skip"),
    ("overlap", "forbid", "'forbid' is none of allow, skip, queue"),
    ("window", "6 hours", "no duration; write 90s"),
    ("window", -1, "not from 0 seconds"),
    ("window", float("nan"), "not from 0 seconds"),
    ("window", True, "not a number of seconds"),
    ("cap", 0, f"not a whole number from 1 to {LARGEST_CAP}"),
    ("cap", LARGEST_CAP + 1, "not a whole number"),
    ("cap", True, "not a whole number"),
    ("cap", 1.5, "not a whole number"),
    ("cap", None, "not a whole number"),
    ("start", NOON.replace(tzinfo=None), "has no time zone"),
    ("start", "2026-11-15", "is not a datetime"),
    ("end", NOON.replace(year=9500), "not between 1970 and 9000"),
    ("end", NOON.date(), "is not a datetime"),
    ("max_runs", 0, "not a whole number from 1"),
    ("max_runs", 2**31, "not a whole number from 1"),
    ("max_runs", "3", "not a whole number from 1"),
    ("jitter", "8d", "more than 7 days"),
    ("jitter", timedelta(days=-1), "not from 0 seconds"),
    ("jitter", None, "not a number of seconds"),
    ("expires_after", "soon", "no duration"),
    ("expires_after", object(), "not a number of seconds"),
    ("retry", "webhook", ""),
    ("priority", 0, "not a whole number from 1 to 9"),
    ("priority", 10, "not a whole number from 1 to 9"),
    ("stream", "", "give 1 to"),
    ("tags", "red", "give a list"),
    ("tags", ["\n"], "cannot be printed"),
]


@pytest.mark.requirement("C3", "C4")
@pytest.mark.parametrize(("field", "value", "problem"), BAD)
def test_an_invalid_option_is_refused_with_its_field(field: str, value: Any, problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        declared(**{field: value})
    assert refused.value.field == field
    assert problem in refused.value.problem


@pytest.mark.requirement("C4")
def test_an_end_before_the_start_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is before start") as refused:
        declared(start=NOON, end=NOON - timedelta(microseconds=1))
    assert refused.value.field == "end"


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="catch_up, window, cap, overlap") as refused:
        declared(catchup="all")
    assert refused.value.field == "catchup"


@pytest.mark.parametrize("rule", ["0 9 * * *", None, 60, timedelta(minutes=1)])
def test_an_invalid_rule_is_refused_with_a_hint(rule: Any) -> None:
    with pytest.raises(InvalidInput, match=r"make one with duly\.cron") as refused:
        timing(rule, ScheduleOptions())
    assert refused.value.field == "rule"


def test_an_invalid_payload_is_refused() -> None:
    for target, payload, field in [
        ("mail", object(), "payload"),
        ("mail", "x" * LIMIT, "payload"),
    ]:
        with pytest.raises(InvalidInput) as refused:
            contents(target, payload, ScheduleOptions(), LIMIT)
        assert refused.value.field == field
