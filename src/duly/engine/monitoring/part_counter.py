"""Counts the outcomes of each target and schedule in memory, until they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from duly.domain.deliveries.outcomes import Settlement
from duly.domain.monitoring.part_counts import OUTCOMES, Part, outcomes_of
from duly.domain.monitoring.rollups import NOTHING, plus, times
from duly.engine.targets.directory import TargetDirectory
from duly.records.stats import Counts

MOST = 50_000
"""How many parts are kept while they cannot be written; the counts of more are lost."""


class PartCounter:
    """The counts that are not written yet, by part."""

    def __init__(self) -> None:
        self._counts: dict[Part, Counts] = {}

    def note(self, settled: Sequence[Settlement], directory: TargetDirectory) -> None:
        """Count written settlements."""
        for part, verdict, many in outcomes_of(settled, directory.names, directory.foreign):
            self._add(part, times(OUTCOMES[verdict], many))

    def take(self) -> dict[Part, Counts]:
        """The counts since the last call."""
        taken, self._counts = self._counts, {}
        return taken

    def put_back(self, taken: Mapping[Part, Counts]) -> None:
        """Keep counts that could not be written."""
        for part, counts in taken.items():
            self._add(part, counts)

    def _add(self, part: Part, counts: Counts) -> None:
        if part in self._counts or len(self._counts) < MOST:
            self._counts[part] = plus(self._counts.get(part, NOTHING), counts)
