"""The gate of a target: its circuit, its rate, and how many deliveries at once."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.domain.endpoints.gates import (
    FIRST_REST,
    GIVES_UP_AFTER,
    LONGEST_REST,
    OPENS_AFTER,
    PROBE_TAKES,
    Gate,
    Pass,
    TargetLimits,
    admit,
    failed,
    is_given_up,
    succeeded,
)
from duly.records.endpoint import Circuit

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
ANY = TargetLimits()


def seconds(many: float) -> timedelta:
    return timedelta(seconds=many)


def opened() -> Gate:
    return failed(Gate(), OPENS_AFTER, NOW)


def test_a_target_without_failures_or_limits_accepts_all() -> None:
    assert admit(Gate(), ANY, 70, 10, 20, NOW) == (Gate(), Pass(70))


@pytest.mark.requirement("F9")
def test_a_circuit_opens_after_five_failures_in_a_row() -> None:
    gate = Gate()
    for _ in range(OPENS_AFTER - 1):
        gate = failed(gate, 1, NOW)
    assert gate.circuit is Circuit.CLOSED
    gate = failed(gate, 1, NOW)
    assert gate.circuit is Circuit.OPEN
    assert gate.probe_at == NOW + FIRST_REST


@pytest.mark.requirement("F9")
def test_a_success_between_failures_keeps_the_circuit_closed() -> None:
    gate = succeeded(failed(Gate(), OPENS_AFTER - 1, NOW))
    assert failed(gate, OPENS_AFTER - 1, NOW).circuit is Circuit.CLOSED


@pytest.mark.requirement("F9")
def test_an_open_circuit_allows_nothing_before_its_probe() -> None:
    gate = opened()
    assert admit(gate, ANY, 50, 0, 0, NOW) == (gate, Pass(0, NOW + FIRST_REST))


@pytest.mark.requirement("F9")
def test_one_probe_runs_at_a_time_and_another_only_if_it_never_returns() -> None:
    later = NOW + FIRST_REST
    probing, passed = admit(opened(), ANY, 50, 0, 0, later)
    assert (probing.circuit, passed.many) == (Circuit.PROBING, 1)
    assert admit(probing, ANY, 50, 0, 0, later)[1].many == 0
    assert admit(probing, ANY, 50, 0, 0, later + PROBE_TAKES)[1].many == 1


@pytest.mark.requirement("F9")
def test_a_failed_probe_waits_twice_as_long_up_to_five_minutes() -> None:
    gate, now, rests = opened(), NOW, []
    for _ in range(8):
        assert gate.probe_at is not None
        now = gate.probe_at
        gate = failed(admit(gate, ANY, 1, 0, 0, now)[0], 1, now)
        assert gate.probe_at is not None
        rests.append((gate.probe_at - now).total_seconds())
    assert rests == [20, 40, 80, 160, 300, 300, 300, 300]
    assert rests[-1] == LONGEST_REST.total_seconds()


@pytest.mark.requirement("F9")
def test_late_failures_of_earlier_attempts_do_not_delay_the_probe() -> None:
    gate = failed(opened(), 40, NOW + seconds(8))
    assert gate.probe_at == NOW + FIRST_REST


@pytest.mark.requirement("F9")
def test_a_success_closes_the_circuit_and_forgets_everything() -> None:
    probing, _ = admit(opened(), ANY, 1, 0, 0, NOW + FIRST_REST)
    assert succeeded(probing) == Gate()


@pytest.mark.requirement("F9")
def test_five_days_of_only_failures_disable_an_endpoint() -> None:
    gate = opened()
    assert not is_given_up(gate, NOW + GIVES_UP_AFTER - seconds(1))
    assert is_given_up(gate, NOW + GIVES_UP_AFTER)
    few = failed(Gate(), OPENS_AFTER - 1, NOW)
    assert not is_given_up(few, NOW + GIVES_UP_AFTER), "two failures a week apart are not enough"


@pytest.mark.requirement("C8")
def test_the_limit_of_running_deliveries_counts_all_workers() -> None:
    limits = TargetLimits(in_flight=10)
    assert admit(Gate(), limits, 50, 2, 3, NOW)[1].many == 5
    assert admit(Gate(), limits, 50, 4, 6, NOW)[1].many == 0
    assert admit(Gate(), limits, 50, 4, 9, NOW)[1].many == 0, "the limit was lowered meanwhile"


@pytest.mark.requirement("C8")
@pytest.mark.parametrize("rate", [0.5, 3.0, 50.0, 777.0])
@pytest.mark.parametrize("step", [0.004, 0.05, 0.37])
def test_the_rate_is_kept_however_often_the_gate_is_checked(rate: float, step: float) -> None:
    gate, now, sent, length = Gate(), NOW, 0, 60.0
    while now < NOW + seconds(length):
        gate, passed = admit(gate, TargetLimits(rate), 10_000, 0, 0, now)
        sent += passed.many
        now += seconds(step)
    burst = 1.0 + rate * 0.1
    assert sent <= rate * length + burst + 1
    if step <= 0.1:
        assert sent >= rate * (length - step) - 2


@pytest.mark.requirement("C8")
def test_after_a_rest_only_a_short_burst_is_allowed() -> None:
    limits = TargetLimits(rate=50.0)
    gate, _ = admit(Gate(), limits, 1, 0, 0, NOW)
    assert admit(gate, limits, 1000, 0, 0, NOW + seconds(3600))[1].many == 6


@pytest.mark.requirement("C8")
def test_a_closed_gate_has_the_time_of_the_next_check() -> None:
    limits = TargetLimits(rate=50.0)
    gate, passed = admit(Gate(), limits, 1000, 0, 0, NOW)
    assert passed.again_at is not None
    assert NOW < passed.again_at <= NOW + seconds(0.1)
    assert admit(gate, limits, 1000, 0, 0, passed.again_at)[1].many >= 1


@pytest.mark.requirement("C8")
def test_the_rate_continues_unchanged_after_a_circuit_closed() -> None:
    gate, _ = admit(Gate(), TargetLimits(rate=1.0), 1, 0, 0, NOW)
    assert succeeded(gate).paced_at == gate.paced_at


@pytest.mark.requirement("C8")
def test_a_clock_that_steps_back_allows_nothing_more() -> None:
    limits = TargetLimits(rate=50.0)
    gate, _ = admit(Gate(), limits, 1000, 0, 0, NOW)
    later, passed = admit(gate, limits, 1000, 0, 0, NOW - seconds(5))
    assert (passed.many, later.paced_at) == (0, gate.paced_at)


@pytest.mark.requirement("P6")
def test_a_clock_that_was_set_back_does_not_hold_a_target_up() -> None:
    limits = TargetLimits(rate=50.0)
    gate, _ = admit(Gate(), limits, 1000, 0, 0, NOW)
    before = NOW - timedelta(hours=1)
    gate, passed = admit(gate, limits, 1000, 0, 0, before)
    assert (passed.many, gate.paced_at) == (0, before)
    assert admit(gate, limits, 1000, 0, 0, before + seconds(0.1))[1].many == 5


@pytest.mark.requirement("P6")
def test_admitted_deliveries_start_evenly_however_late_the_gate_is_asked() -> None:
    limits, gate, starts = TargetLimits(rate=100.0), Gate(), list[float]()
    for asked in (0.0, 0.055, 0.09, 0.19, 0.21, 0.28):
        gate, passed = admit(gate, limits, 1000, 0, 0, NOW + seconds(asked))
        assert passed.pace is not None
        starts += [asked + passed.pace.first_in + n * 0.01 for n in range(passed.many)]
    assert starts == pytest.approx([n * 0.01 for n in range(len(starts))], abs=1e-4)
    assert len(starts) == 39


@pytest.mark.requirement("P6")
def test_a_gate_that_was_filled_is_asked_again_soon() -> None:
    limits = TargetLimits(in_flight=10)
    assert admit(Gate(), limits, 50, 2, 3, NOW)[1] == Pass(5, NOW + seconds(0.25))
    assert admit(Gate(), limits, 5, 2, 3, NOW)[1] == Pass(5)
