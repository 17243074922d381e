"""Moments and durations as people write them."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.domain.time.durations import duration
from duly.errors import InvalidInput
from duly.surfaces.cli.terminal.output import cell
from duly.surfaces.cli.terminal.times import moment, spelled


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("5s", 5), ("1.5m", 90), ("1h30m", 5400), ("7d", 604800), ("2w", 1209600)],
)
def test_a_duration_is_numbers_with_units(text: str, seconds: float) -> None:
    assert duration("after", text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "5 s", "5x", "1h-5m", "9" * 400 + "d"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="after: "):
        duration("after", text)


@pytest.mark.parametrize("text", ["2026-11-16T09:00+01:00", "2026-11-16T08:00Z"])
def test_a_moment_has_a_zone(text: str) -> None:
    assert moment("at", text) == datetime(2026, 11, 16, 8, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2026-11-16T09:00", "2026-11-16", "now", ""])
def test_a_moment_without_a_zone_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="at: "):
        moment("at", text)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0ms"), (0.25, "250ms"), (90, "1m30s"), (604800, "1w")]
)
def test_durations_are_written_in_their_largest_units(seconds: float, words: str) -> None:
    assert spelled(seconds) == words


def test_a_cell_cannot_move_the_cursor() -> None:
    assert cell("a\x1b[2Jb\nc") == r"a\x1b[2Jb\nc"
