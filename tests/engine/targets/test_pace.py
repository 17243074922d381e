"""How many lanes of a target may be held ahead: what the worker completes in 50 ms."""

import pytest

from duly.engine.targets.pace import MOST_AHEAD, Pace
from duly.testing import VirtualClock

pytestmark = pytest.mark.requirement("D6")


class Course:
    """Attempts of targets that end over time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.pace = Pace(self.clock.monotonic)

    def run(self, seconds: float, every: float, **ended: int) -> None:
        """Let so many end at each look, for some seconds; a target is named by its number."""
        for _ in range(round(seconds / every)):
            for target, many in ended.items():
                self.pace.ended[int(target[1:])] += many
            self.clock.advance(every)
            self.pace.ahead(0)


def test_the_pace_is_what_ends_in_50_ms() -> None:
    course = Course()
    course.run(2, 0.02, t1=20)
    assert course.pace.ahead(1) in (49, 50)
    assert course.pace.ahead(2) == 0


@pytest.mark.parametrize("every", [0.01, 0.02, 0.1, 0.5])
def test_the_pace_does_not_depend_on_how_often_it_is_looked_at(every: float) -> None:
    course = Course()
    course.run(4, every, t1=round(1000 * every))
    assert course.pace.ahead(1) in (49, 50)


def test_many_looks_in_a_moment_do_not_make_a_short_burst_weigh_more() -> None:
    course = Course()
    course.run(4, 0.5, t1=50)
    for _ in range(1000):
        course.pace.ended[1] += 1
        course.pace.ahead(1)
    assert course.pace.ahead(1) in (4, 5), "no time has passed yet"
    course.clock.advance(1)
    assert course.pace.ahead(1) in (49, 50)


def test_a_target_that_hangs_has_soon_nothing_ahead() -> None:
    course = Course()
    course.run(2, 0.02, t1=20)
    course.clock.advance(0.2)
    assert 10 < course.pace.ahead(1) < 25
    course.clock.advance(0.8)
    assert course.pace.ahead(1) == 0


def test_a_slow_target_has_nothing_ahead_beside_a_fast_one() -> None:
    course = Course()
    course.run(4, 0.1, t1=100, t2=1)
    assert course.pace.ahead(1) in (49, 50)
    assert course.pace.ahead(2) == 0
    assert course.pace.total([1]) in (49, 50)
    assert course.pace.total([1, 2]) == 0


def test_never_more_than_the_most() -> None:
    course = Course()
    course.run(2, 0.1, t1=50_000, t2=50_000)
    assert course.pace.ahead(1) == course.pace.total([1, 2]) == MOST_AHEAD


def test_an_idle_time_is_not_averaged_away() -> None:
    course = Course()
    course.run(2, 0.02, t1=20)
    course.clock.advance(600)
    course.pace.ended[1] += 30
    course.clock.advance(0.01)
    assert course.pace.ahead(1) == 0
