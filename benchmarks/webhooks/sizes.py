"""How much is measured: in full, or small for a quick check."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True)
class Sizes:
    """Deliveries, rounds, seconds."""

    count: int
    """How many are drained for speed."""
    rounds: int
    seconds: float
    """How long healthy endpoints are measured, with and without one that hangs."""
    each_rate: float
    """How many a second are sent to each healthy endpoint."""
    waiting: int
    """How many wait for the endpoint that hangs."""
    timeout: float
    paced_seconds: float
    paced_backlog: int
    in_flight: int = 50
    """How many are in flight for speed: the default of a process for one target."""
    before: Path | None = None
    """A worktree of an earlier commit, which is measured in turn."""

    def but(self, **given: Any) -> Self:
        """These sizes, with the given changes."""
        return replace(self, **{name: each for name, each in given.items() if each is not None})


FULL = Sizes(
    count=20_000,
    rounds=3,
    seconds=20,
    each_rate=10,
    waiting=50_000,
    timeout=30,
    paced_seconds=20,
    paced_backlog=2000,
)
SMALL = Sizes(
    count=3000,
    rounds=1,
    seconds=3,
    each_rate=10,
    waiting=5000,
    timeout=5,
    paced_seconds=5,
    paced_backlog=500,
)
