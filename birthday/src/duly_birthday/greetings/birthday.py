"""The birthday."""

from __future__ import annotations

from datetime import date

from duly_birthday.users.events import Person


class Birthday:
    """The date of birth as an occasion."""

    name = "birthday"

    def day(self, person: Person) -> date:
        """Their date of birth."""
        return person.date_of_birth

    def text(self, person: Person) -> str:
        """The message."""
        return f"Hey, {person.first_name} {person.last_name} it's your birthday"
