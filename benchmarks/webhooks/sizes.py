"""How much is measured: in full, or small to see that it works."""

from dataclasses import dataclass, replace
from typing import Any, Self


@dataclass(frozen=True)
class Sizes:
    """Deliveries, rounds, seconds."""

    count: int
    """How many are drained for speed."""
    rounds: int
    seconds: float
    """How long healthy endpoints are watched, with and without one that hangs."""
    each_rate: float
    """How many a second each healthy one is sent."""
    waiting: int
    """How many wait for the one that hangs."""
    timeout: float
    paced_seconds: float
    paced_backlog: int
    in_flight: int = 50
    """How many are sent at once for speed: as many as a process as it comes sends to one target."""

    def but(self, **given: Any) -> Self:
        """These, except for what is given."""
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
