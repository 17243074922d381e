"""The anniversary of the day on which a person joined."""

from __future__ import annotations

from datetime import date

from duly_birthday.users.events import Person


class Anniversary:
    """The day on which a person joined."""

    name = "anniversary"

    def day(self, person: Person) -> date:
        """The day on which they were registered."""
        return person.since.date()

    def text(self, person: Person) -> str:
        """The text of the greeting."""
        return f"Thank you, {person.first_name}: another year with us"
