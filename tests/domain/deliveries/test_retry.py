"""Retry plans: how long to wait, and when to stop."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.deliveries import retry
from duly.domain.deliveries.retry import (
    NEVER_AGAIN,
    attempts_allowed,
    delays,
    exponential,
    next_delay,
)
from duly.errors import InvalidInput
from duly.records import retry_plan
from duly.records.reason import Reason
from duly.records.retry_plan import RetryPlan, no_retry

pytestmark = pytest.mark.requirement("F2")

OFTEN = sorted(set(Reason) - NEVER_AGAIN - {Reason.POISON_MESSAGE})
fractions = st.floats(0, 1)
exponentials = st.builds(
    exponential,
    base=st.floats(0.001, 100),
    cap=st.floats(100, 10_000),
    attempts=st.integers(1, 1000),
    jitter=st.floats(0, 10),
)
lists = st.lists(st.floats(0, 10_000), max_size=20).map(lambda each: delays(*each))
plain = st.one_of(exponentials, lists, st.just(no_retry))


@st.composite
def ruled(draw: st.DrawFn) -> RetryPlan:
    plan: RetryPlan = draw(plain)
    for reason in draw(st.lists(st.sampled_from(list(Reason)), max_size=4, unique=True)):
        plan = plan.on(reason, draw(plain))
    return plan


@given(exponentials, st.integers(1, 2000), fractions)
def test_jitter_only_delays(plan: retry_plan.Exponential, failures: int, spread: float) -> None:
    least = plan.delay(failures, 0.0)
    assert least <= plan.delay(failures, spread) <= least * (1 + plan.jitter) * 1.000001


@given(exponentials, st.integers(1, 2000))
def test_the_wait_doubles_up_to_the_cap(plan: retry_plan.Exponential, failures: int) -> None:
    wait = plan.delay(failures, 0.0)
    assert wait <= plan.cap
    assert plan.delay(failures + 1, 0.0) == pytest.approx(min(2 * wait, plan.cap))
    assert plan.delay(1, 0.0) == plan.base


@given(ruled(), st.sampled_from(list(Reason)), st.integers(1, 1200), fractions)
def test_no_plan_allows_more_attempts_than_its_limit(
    plan: RetryPlan, reason: Reason, failures: int, spread: float
) -> None:
    wait = next_delay(plan, reason, failures, spread)
    if failures >= attempts_allowed(plan):
        assert wait is None
    if failures >= plan.rules.get(reason, plan).attempts:
        assert wait is None
    assert wait is None or wait >= 0


@given(plain, st.sampled_from(OFTEN), st.integers(1, 1200))
def test_a_plan_continues_until_its_attempts_are_spent(
    plan: RetryPlan, reason: Reason, failures: int
) -> None:
    assert (next_delay(plan, reason, failures, 0.0) is None) == (failures >= plan.attempts)


def test_the_default_is_thirty_seconds_doubling_to_an_hour_ten_times() -> None:
    waits = [next_delay(retry.DEFAULT, Reason.UNKNOWN, each, 0.0) for each in range(1, 11)]
    assert waits == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, None]
    assert retry.DEFAULT.delay(1, 1.0) == 36.0


def test_listed_delays_are_used_in_order() -> None:
    plan = retry.WEBHOOK
    waits = [next_delay(plan, Reason.TRANSPORT_UNAVAILABLE, each, 0.7) for each in range(1, 6)]
    assert waits == [30, 120, 600, None, None]
    assert plan.attempts == 4


def test_without_retry_there_is_one_attempt() -> None:
    assert next_delay(no_retry, Reason.UNKNOWN, 1, 0.0) is None
    assert no_retry.attempts == 1


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("reason", sorted(NEVER_AGAIN))
def test_permanent_failures_are_retried_only_by_a_rule(reason: Reason) -> None:
    plan = exponential()
    assert next_delay(plan, reason, 1, 0.0) is None
    assert next_delay(plan.on(reason, delays(7, 8)), reason, 2, 0.0) == 8
    assert next_delay(plan.on(reason, delays(7, 8)), reason, 3, 0.0) is None


@pytest.mark.requirement("F1")
def test_a_rule_applies_only_to_its_reason() -> None:
    plan = exponential(base=10, jitter=0).on("timeout_exceeded", delays(1)).on("unknown", no_retry)
    assert next_delay(plan, Reason.TIMEOUT_EXCEEDED, 1, 0.0) == 1
    assert next_delay(plan, Reason.UNKNOWN, 1, 0.0) is None
    assert next_delay(plan, Reason.HANDLER_EXCEPTION, 1, 0.0) == 10


@given(ruled(), st.integers(1, 1200), fractions)
def test_poison_is_never_retried(plan: RetryPlan, failures: int, spread: float) -> None:
    assert next_delay(plan, Reason.POISON_MESSAGE, failures, spread) is None


@given(ruled())
def test_a_plan_is_the_same_after_it_was_stored(plan: RetryPlan) -> None:
    assert retry.decode(retry.encode(plan)) == plan


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("base", lambda: exponential(base=0)),
        ("base", lambda: exponential(base=float("nan"))),
        ("cap", lambda: exponential(base=10, cap=9)),
        ("cap", lambda: exponential(cap=float("inf"))),
        ("attempts", lambda: exponential(attempts=0)),
        ("attempts", lambda: exponential(attempts=1001)),
        ("jitter", lambda: exponential(jitter=-0.1)),
        ("delays", lambda: delays(1, -1)),
        ("delays", lambda: delays(float("nan"))),
        ("delays", lambda: delays(*range(1000))),
        ("reason", lambda: exponential().on("bad mood", no_retry)),
    ],
)
def test_an_invalid_plan_is_refused_with_its_field(field: str, make: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        make()  # type: ignore[operator]
    assert refused.value.field == field
