"""A reason to greet somebody once a year: what a new one has to say of itself."""

from __future__ import annotations

from datetime import date
from typing import Protocol

from duly_birthday.users.events import Person


class Occasion(Protocol):
    """One of the things for which people are greeted."""

    @property
    def name(self) -> str:
        """What its schedules and its greetings are known by."""

    def day(self, person: Person) -> date:
        """The day whose return is greeted."""

    def text(self, person: Person) -> str:
        """What is said."""
