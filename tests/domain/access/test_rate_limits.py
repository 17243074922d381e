"""The token bucket: a client within the rate is never refused, a faster one gets the rate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.access.rate_limits import full, take


def granted(rate: float, moments: list[float]) -> list[float]:
    bucket, found = full(rate, 0.0), []
    for moment in moments:
        bucket, wait = take(bucket, rate, moment)
        if not wait:
            found.append(moment)
    return found


@pytest.mark.requirement("S2")
@given(rate=st.floats(0.01, 10_000), many=st.integers(1, 300))
def test_a_steady_client_is_never_refused(rate: float, many: int) -> None:
    # A little slower than the rate: sums of floats are not exact.
    moments = [n / rate * (1 + 1e-9) for n in range(many)]
    assert granted(rate, moments) == moments


@pytest.mark.requirement("S2")
def test_a_client_above_the_rate_gets_exactly_the_rate() -> None:
    moments = [n / 1000 for n in range(10_000)]
    assert len(granted(10, moments)) == pytest.approx(10 + 10 * 10, abs=1)


def test_the_wait_is_the_time_until_the_next_token() -> None:
    bucket = full(0.5, 0.0)
    bucket, wait = take(bucket, 0.5, 0.0)
    assert wait == 0
    bucket, wait = take(bucket, 0.5, 0.5)
    assert wait == 1.5
    _, wait = take(bucket, 0.5, 2.0)
    assert wait == 0
