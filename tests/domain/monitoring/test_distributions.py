"""Distributions: values by bucket, and the percentiles read from them."""

import pytest

from duly.domain.monitoring.distributions import LATENESS, SECONDS, Times, percentiles, spread
from duly.domain.monitoring.rollups import EMPTY, Tally
from duly.records.stats import Counts

pytestmark = pytest.mark.requirement("S3", "S5")


def test_a_percentile_is_in_the_bucket_of_the_value_it_stands_for() -> None:
    buckets = spread(SECONDS, [(0.2, 50), (2.0, 45), (20.0, 5)])
    found = percentiles(SECONDS, buckets)
    assert found is not None
    assert 0.1 < found.p50 <= 0.25
    assert 1.0 < found.p95 <= 2.5
    assert 10.0 < found.p99 <= 30.0


def test_a_value_equal_to_a_bound_is_in_its_bucket() -> None:
    assert spread((1.0, 2.0), [(1.0, 1), (1.5, 2), (2.0, 3), (9.0, 4)]) == (1, 5, 4)


def test_values_above_all_bounds_are_shown_as_the_last_one() -> None:
    found = percentiles(LATENESS, spread(LATENESS, [(1e9, 1)]))
    assert found is not None
    assert found.p50 == found.p99 == LATENESS[-1]


def test_without_values_there_are_no_percentiles() -> None:
    assert percentiles(SECONDS, spread(SECONDS, [])) is None
    assert percentiles(SECONDS, ()) is None


def test_distributions_add_and_subtract_also_shorter_ones_of_older_versions() -> None:
    short, long = Times(run=(1, 2)), Times(run=(5, 5, 5))
    assert short.plus(long).run == (6, 7, 5)
    assert short.plus(long).less(short).run == (5, 5, 5)


def test_a_tally_with_nothing_counted_is_false() -> None:
    some = Tally(Counts(accepted=1), Times(run=(1,)))
    assert some
    assert not some.less(some)
    assert Tally(Counts(), Times(run=(1,)))
    assert not EMPTY
