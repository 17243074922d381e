"""Crash counting: finds the delivery that kills its worker, without blaming those beside it.

When a worker dies, it is unknown which of its deliveries was the cause, so the lane of each counts
a crash and none spends an attempt. A lane with `suspect_after` crashes is a suspect and runs
alone. If the worker dies while a lane runs alone, that lane was the cause: it spends an attempt.
After `poison_after` such crashes, or when the attempts are spent, the delivery is dead.
An attempt that ends in any other way sets the lane's crash count to zero.
"""

from __future__ import annotations

import msgspec


class CrashRule(msgspec.Struct, frozen=True):
    """The number of crashes that make a lane a suspect, and of further ones that prove poison."""

    suspect_after: int = 2
    poison_after: int = 3

    def runs_alone(self, crashes: int) -> bool:
        """Whether a lane with this crash count must run alone."""
        return crashes >= self.suspect_after

    def is_poison(self, crashes: int) -> bool:
        """Whether this crash count proves that the delivery kills its workers."""
        return crashes >= self.suspect_after + self.poison_after
