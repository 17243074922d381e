"""This program, as far as its code declares schedules."""

from __future__ import annotations

from dataclasses import dataclass, field

NAMELESS = "__main__"
"""The program of code without a file, as in a notebook: any other may have the same name."""


@dataclass(frozen=True, slots=True)
class Program:
    """The name of the program, and the schedules that its code declares in this process."""

    name: str
    schedules: set[str] = field(default_factory=set)

    @property
    def is_known(self) -> bool:
        """Whether its name tells it from other programs."""
        return self.name != NAMELESS

    def by_name(self, schedule: str) -> str | None:
        """The program that declares the schedule by name only; None if a decorator here does."""
        return None if schedule in self.schedules else self.name
