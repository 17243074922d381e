"""The description of a rule at clock changes is what the rule does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duly.domain.schedules.rule_spec import CLOCK_CHANGES, explained
from duly.domain.time.rules import Rule, any_of, at, cron, every, yearly

OSLO = "Europe/Oslo"
BEFORE = datetime(2026, 3, 28, 12, tzinfo=UTC)
GAP = datetime(2026, 3, 29, 1, tzinfo=UTC)
"""In Oslo the clock goes from 02:00 to 03:00."""
CASES: dict[str, tuple[Rule, timedelta | None]] = {
    "fixed-time": (cron("30 2 * * *", tz=OSLO), timedelta()),
    "fixed-time, gaps dropped": (cron("30 2 * * *", tz=OSLO, dst_gap="skip"), None),
    "wildcard": (cron("*/30 2 * * *", tz=OSLO), None),
    "elapsed": (every("1h"), timedelta()),
    "wall time": (yearly(3, 29, "02:30", tz=OSLO), timedelta(minutes=30)),
    "several": (any_of(cron("30 2 * * *", tz=OSLO), every("1h")), timedelta()),
    "instant": (at("2026-03-29T01:10Z"), timedelta(minutes=10)),
}


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("kind", CASES)
def test_the_description_of_each_kind_of_rule_is_true(kind: str) -> None:
    rule, after_gap = CASES[kind]
    description = explained(rule, [])
    assert (description.kind, description.clock_changes) == (kind, CLOCK_CHANGES[kind])
    found = [
        each for each in rule.preview(40, after=BEFORE) if GAP <= each < GAP + timedelta(hours=1)
    ]
    assert found == ([] if after_gap is None else [GAP + after_gap])


@pytest.mark.requirement("C2")
def test_every_kind_of_rule_has_a_description() -> None:
    assert CASES.keys() == CLOCK_CHANGES.keys()
    description = explained(at("2026-03-29T02:30", tz=OSLO), [])
    assert description.kind == "wall time"
    assert "moves forward by the length of the gap" in description.clock_changes
