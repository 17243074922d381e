"""The protocol of an occasion to greet somebody once a year."""

from __future__ import annotations

from datetime import date
from typing import Protocol

from duly_birthday.users.events import Person


class Occasion(Protocol):
    """An occasion for a yearly greeting."""

    @property
    def name(self) -> str:
        """The name, in schedules, tags and payloads."""

    def day(self, person: Person) -> date:
        """The day whose anniversary is greeted."""

    def text(self, person: Person) -> str:
        """The message."""
