"""How a delivery that kills its worker is found without blaming those that ran beside it.

A dead worker leaves no word on which of its deliveries was to blame, so each one's lane counts
a crash and none spends an attempt. A lane with `suspect_after` crashes is a suspect: it runs
alone. A crash of a lane that ran alone is its own: it spends an attempt, and after
`poison_after` of those, or when the attempts are spent, the delivery is dead.
An attempt that ends in any other way clears the lane.
"""

from __future__ import annotations

import msgspec


class CrashRule(msgspec.Struct, frozen=True):
    """How many crashes make a suspect, and how many more, alone, prove it."""

    suspect_after: int = 2
    poison_after: int = 3

    def runs_alone(self, crashes: int) -> bool:
        """Whether a lane with that many crashes must run with nothing beside it."""
        return crashes >= self.suspect_after

    def is_poison(self, crashes: int) -> bool:
        """Whether that many crashes prove the delivery guilty."""
        return crashes >= self.suspect_after + self.poison_after
