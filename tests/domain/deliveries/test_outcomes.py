"""The settlement of every outcome, with every number of crashes."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.deliveries.crashes import CrashRule
from duly.domain.deliveries.delivery import ALONE, Claimed
from duly.domain.deliveries.outcomes import (
    LONGEST_ERROR,
    LONGEST_TRACEBACK,
    Completed,
    Crashed,
    Expired,
    Failed,
    Outcome,
    Released,
    Settlement,
    Verdict,
    complete,
    settle,
)
from duly.domain.deliveries.retry import attempts_allowed, delays, exponential
from duly.domain.deliveries.states import may_move
from duly.domain.moments import microseconds
from duly.records.reason import Reason
from duly.records.retry_plan import RetryPlan, no_retry
from duly.records.state import State
from duly.stores.deliveries.rows import AFTER, BEFORE

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
RULE = CrashRule()
PLAN = exponential(base=30, cap=3600, attempts=4, jitter=0)

plans = st.sampled_from(
    [PLAN, delays(0, 30), no_retry, PLAN.on("unknown", no_retry), no_retry.on("unknown", delays(5))]
)
outcomes = st.one_of(
    st.just(Completed()),
    st.just(Released()),
    st.just(Expired()),
    st.just(Crashed()),
    st.builds(
        Failed,
        st.sampled_from(list(Reason)),
        st.text(max_size=20),
        st.none() | st.floats(0, 1000),
        st.none() | st.booleans(),
    ),
)


def held(attempt: int = 0, crashes: int = 0, priority: int = 7) -> Claimed:
    return Claimed(
        id="018f0000-0000-7000-8000-000000000001",
        lane="lane",
        token=4_294_967_299,
        target=3,
        payload=b"{}",
        attempt=attempt,
        priority=priority,
        crashes=crashes,
        due_at=NOON - timedelta(seconds=9),
        ready_at=NOON - timedelta(seconds=8),
        expires_at=None,
        retry=None,
        key=None,
    )


def decided(claimed: Claimed, outcome: Outcome, plan: RetryPlan = PLAN) -> Settlement:
    return settle(
        claimed,
        outcome,
        plan,
        started_us=microseconds(NOON),
        finished_us=microseconds(NOON) + 1_000_000,
        chance=lambda: 0.5,
        crash_rule=RULE,
    )


@given(outcomes, plans, st.integers(0, 5), st.integers(0, 6))
def test_the_settlement_of_any_outcome_is_valid(
    outcome: Outcome, plan: RetryPlan, attempt: int, crashes: int
) -> None:
    claimed = held(attempt, crashes)
    found = decided(claimed, outcome, plan)
    assert (found.lane, found.token, found.delivery) == (claimed.lane, claimed.token, claimed.id)
    assert attempt <= found.attempt <= attempt + 1
    assert (found.wait is not None) == (found.verdict is Verdict.RETRY)
    assert (found.priority == ALONE) == RULE.runs_alone(found.crashes)
    assert found.priority in (ALONE, claimed.priority)
    if found.verdict is Verdict.RETRY:
        assert found.attempt < attempts_allowed(plan)
    if found.verdict in (Verdict.RETRY, Verdict.DEAD):
        assert found.attempt == attempt + 1
        assert found.reason in set(Reason)


@pytest.mark.requirement("F3")
@given(plans, st.lists(outcomes, min_size=12, max_size=30))
def test_attempts_never_exceed_the_limit_in_any_history(
    plan: RetryPlan, history: list[Outcome]
) -> None:
    claimed, spent = held(), 0
    for outcome in history:
        found = decided(claimed, outcome, plan)
        spent = found.attempt
        assert spent <= attempts_allowed(plan)
        if found.verdict not in (Verdict.RETRY, Verdict.RELEASED, Verdict.RECLAIMED):
            return
        claimed = held(found.attempt, found.crashes)


@pytest.mark.requirement("F3")
@given(plans, st.integers(0, 3))
def test_a_delivery_that_always_crashes_its_worker_is_dead_within_the_limits(
    plan: RetryPlan, attempt: int
) -> None:
    claimed, deaths = held(min(attempt, attempts_allowed(plan) - 1)), 0
    while True:
        deaths += 1
        found = decided(claimed, Crashed(), plan)
        if found.verdict is Verdict.DEAD:
            break
        claimed = held(found.attempt, found.crashes)
    assert deaths <= RULE.suspect_after + RULE.poison_after
    assert found.attempt <= attempts_allowed(plan)


@pytest.mark.requirement("F3")
def test_a_delivery_that_crashed_alone_too_often_is_dead_as_poison() -> None:
    verdicts = []
    claimed = held()
    for _ in range(5):
        found = decided(claimed, Crashed(), exponential())
        verdicts.append((found.verdict, found.attempt, found.crashes, found.priority))
        claimed = held(found.attempt, found.crashes)
    assert verdicts == [
        (Verdict.RECLAIMED, 0, 1, 7),
        (Verdict.RECLAIMED, 0, 2, ALONE),
        (Verdict.RETRY, 1, 3, ALONE),
        (Verdict.RETRY, 2, 4, ALONE),
        (Verdict.DEAD, 3, 5, ALONE),
    ]
    assert found.reason == Reason.POISON_MESSAGE
    assert "5 times" in (found.error or "")


@pytest.mark.parametrize("crashes", range(RULE.suspect_after))
def test_a_crash_together_with_others_spends_no_attempt(crashes: int) -> None:
    found = decided(held(attempt=2, crashes=crashes), Crashed())
    assert (found.verdict, found.attempt) == (Verdict.RECLAIMED, 2)
    assert (found.crashes, found.wait, found.reason) == (crashes + 1, None, None)


@pytest.mark.parametrize("crashes", [2, 3])
def test_a_crash_alone_spends_an_attempt_and_waits(crashes: int) -> None:
    found = decided(held(attempt=1, crashes=crashes), Crashed())
    assert (found.verdict, found.attempt, found.wait) == (Verdict.RETRY, 2, 60)
    assert (found.crashes, found.priority) == (crashes + 1, ALONE)


@pytest.mark.requirement("F3")
def test_a_crash_alone_that_spends_the_last_attempt_is_poison() -> None:
    found = decided(held(attempt=3, crashes=2), Crashed())
    assert (found.verdict, found.reason) == (Verdict.DEAD, Reason.POISON_MESSAGE)


@pytest.mark.parametrize("crashes", range(5))
def test_a_released_delivery_keeps_its_crashes_and_spends_no_attempt(crashes: int) -> None:
    found = decided(held(attempt=2, crashes=crashes), Released())
    assert (found.verdict, found.attempt, found.crashes) == (Verdict.RELEASED, 2, crashes)
    assert (found.started_at, found.wait, found.reason) == (None, None, None)


@pytest.mark.parametrize("outcome", [Completed(), Failed(Reason.UNKNOWN, "no"), Expired()])
def test_any_other_outcome_clears_the_crashes(outcome: Outcome) -> None:
    found = decided(held(crashes=3), outcome)
    assert (found.crashes, found.priority) == (0, 7)


def test_an_expired_delivery_spends_no_attempt() -> None:
    found = decided(held(attempt=1), Expired())
    assert (found.verdict, found.attempt, found.reason) == (Verdict.EXPIRED, 1, "expired")


def test_the_fast_path_of_completion_decides_the_same() -> None:
    claimed, end = held(attempt=2), microseconds(NOON) + 1_000_000
    assert complete(claimed, microseconds(NOON), end) == decided(claimed, Completed())


@pytest.mark.requirement("F3")
def test_the_last_failed_attempt_is_dead() -> None:
    found = decided(held(attempt=3), Failed(Reason.TIMEOUT_EXCEEDED, "slow"))
    assert (found.verdict, found.attempt, found.wait) == (Verdict.DEAD, 4, None)
    assert (found.reason, found.error) == (Reason.TIMEOUT_EXCEEDED, "slow")


@pytest.mark.requirement("F2")
def test_a_requested_wait_replaces_that_of_the_plan_but_not_its_limit() -> None:
    busy = Failed(Reason.UNKNOWN, "busy", after=5.5)
    assert decided(held(attempt=2), busy).wait == 5.5
    assert decided(held(attempt=3), busy).verdict is Verdict.DEAD


def test_a_failure_that_forbids_another_attempt_is_dead() -> None:
    found = decided(held(), Failed(Reason.UNKNOWN, "never", after=5, again=False))
    assert found.verdict is Verdict.DEAD


def test_an_error_is_cut_and_made_valid_for_every_store() -> None:
    found = decided(held(), Failed(Reason.UNKNOWN, "a\0b\ud800c" + "x" * 5000))
    assert found.error is not None
    assert found.error.startswith("a\N{REPLACEMENT CHARACTER}b?c")
    assert len(found.error) == LONGEST_ERROR


def test_a_traceback_is_cut_and_made_valid_for_every_store() -> None:
    text = "a\0b\ud800c" + "x" * 10_000
    found = decided(held(), Failed(Reason.UNKNOWN, "no", traceback=text))
    assert found.traceback is not None
    assert found.traceback.startswith("a\N{REPLACEMENT CHARACTER}b?c")
    assert len(found.traceback) == LONGEST_TRACEBACK


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("word", [*Verdict, "cancelled", "retried"])
def test_every_transition_of_the_history_is_in_the_drawing(word: str) -> None:
    before = BEFORE.get(word, State.PROCESSING)
    assert may_move(before, AFTER.get(word, State.PENDING))
