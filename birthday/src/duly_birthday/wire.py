"""The wire between users and greetings: one transaction, in which users' events are handed over."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any
from uuid import UUID

import msgspec

from duly import Namespace
from duly.domain.time import zones
from duly_birthday.greetings.greetings import Greeting, Greetings, Manner, Report
from duly_birthday.users import migrations
from duly_birthday.users.checks import InvalidUser, Problem, checked
from duly_birthday.users.directory import Directory
from duly_birthday.users.sql import Dialect
from duly_birthday.users.user import User

logger = logging.getLogger("duly_birthday")
Given = Mapping[str, object]
REPLANNED_AT_ONCE = 100
AT_ONCE = 50


class Refused(msgspec.Struct, frozen=True):
    """Somebody who was not taken: the place in what was given, and why."""

    index: int
    problems: list[Problem]


class Taken(msgspec.Struct, frozen=True):
    """Of many people, those who are new, those who were there, and those who were refused."""

    created: list[User]
    ids: list[str]
    """Of all who are there now, in their order."""
    refused: list[Refused]

    @property
    def known(self) -> int:
        """How many were there already."""
        return len(self.ids) - len(self.created)


class Calendar:
    """Time zones as duly knows them, and its clock."""

    def __init__(self, app: Namespace) -> None:
        self._clock = app.clock

    def has(self, zone: str) -> bool:
        """Whether there is such a zone."""
        return zone in zones.names()

    def today(self, zone: str) -> date:
        """Which day it is there."""
        return self._clock.now().astimezone(zones.zone(zone)).date()


class Birthdays:
    """Users and their greetings over an app; every change is whole or not at all."""

    def __init__(self, app: Namespace, manner: Manner) -> None:
        self._app = app
        self._calendar = Calendar(app)
        self.clock = app.clock
        self.dialect = dialect_of(app)
        self._users = Directory(self.dialect, app.clock.now, app.chance.delivery_id)
        self._greetings = Greetings(app, manner)

    async def register(self, given: Given, id: str | None = None) -> tuple[User, Greeting | None]:
        """Take one user in, with the schedule and the first greeting; with an `id`, once."""
        fields = checked(given, self._calendar) | ({} if id is None else {"id": id})
        async with self._app.transaction() as transaction:
            new, events = await self._users.register(transaction, [fields])
            report = await self._greetings.react(transaction, events)
        if new:
            return new[0], report.next
        assert id is not None
        user, upcoming, _ = await self.show(id)
        return user, upcoming

    async def register_many(
        self, people: Iterable[Given], ids: Iterable[str] | None = None
    ) -> Taken:
        """Take many in, in one transaction; those with a problem are reported and left out.

        With `ids`, those who have been taken in under theirs are not taken in again.
        """
        fields, refused = await self._sorted(people, ids)
        if not fields:
            return Taken([], [], refused)
        created: list[User] = []
        async with self._app.transaction() as transaction:
            # In batches: to plan a thousand birthdays in one go would hold up everybody else.
            for start in range(0, len(fields), AT_ONCE):
                batch = fields[start : start + AT_ONCE]
                new, events = await self._users.register(transaction, batch)
                await self._greetings.react(transaction, events)
                created += new
        taken = (
            [each["id"] for each in fields] if ids is not None else [each.id for each in created]
        )
        return Taken(created, taken, refused)

    async def _sorted(
        self, people: Iterable[Given], ids: Iterable[str] | None
    ) -> tuple[list[dict[str, Any]], list[Refused]]:
        named = [] if ids is None else [{"id": each} for each in ids]
        fields: list[dict[str, Any]] = []
        refused: list[Refused] = []
        for index, given in enumerate(people):
            if not index % AT_ONCE:
                await self.clock.sleep(0)
            try:
                kept = checked(given, self._calendar)
                fields.append(kept | named[index] if named else kept)
            except InvalidUser as error:
                refused.append(Refused(index, error.problems))
        return fields, refused

    async def show(self, id: str) -> tuple[User, Greeting | None, Greeting | None]:
        """One user, with the next greeting and the last."""
        async with self._app.transaction() as transaction:
            user = await self._users.get(transaction, checked_id(id))
        return user, *await self._greetings.of(user.id)

    async def page(self, after: str | None, limit: int) -> Sequence[User]:
        """Users by their ids."""
        after = None if after is None else checked_id(after, "cursor")
        async with self._app.transaction() as transaction:
            return await self._users.page(transaction, after, limit)

    async def edit(self, id: str, given: Given, version: int | None) -> tuple[User, Report]:
        """Change some fields of a user, and with them what is pending."""
        fields = checked(given, self._calendar, partial=True)
        async with self._app.transaction() as transaction:
            user, events = await self._users.edit(transaction, checked_id(id), fields, version)
            report = await self._greetings.react(transaction, events)
        if report.skipped:
            _tell_skipped(user.id, report.skipped)
        return user, report

    async def remove(self, id: str) -> None:
        """Forget a user; what is pending is cancelled, what is being sent ends."""
        async with self._app.transaction() as transaction:
            events = await self._users.remove(transaction, checked_id(id))
            await self._greetings.react(transaction, events)

    async def replan(self, after: str | None) -> Sequence[User]:
        """Declare the greetings of some users anew; returns them, the next `after` is the last."""
        async with self._app.transaction() as transaction:
            people = await self._users.page(transaction, after, REPLANNED_AT_ONCE)
            for user in people:
                await self._greetings.renew(transaction, user.person())
        return people


def _tell_skipped(user: str, greetings: Sequence[str]) -> None:
    facts = {"user": user, "deliveries": list(greetings)}
    logger.warning(
        "user %s was edited while greetings were under way, which go out as they were: %s",
        user,
        ", ".join(greetings),
        extra={"event": "GreetingsUnchanged", "facts": facts},
    )


async def bring_up(app: Namespace) -> None:
    """See that the users' tables are there."""
    async with app.transaction() as transaction:
        await migrations.migrate(transaction, dialect_of(app))


def dialect_of(app: Namespace) -> Dialect:
    """Which database the app is on."""
    return "sqlite" if app.store.single_owner else "postgres"


def checked_id(id: str, field: str = "id") -> str:
    """A user's id in its usual spelling."""
    try:
        return str(UUID(id))
    except ValueError:
        raise InvalidUser([Problem(field, f"{id[:60]!r} is no UUID")]) from None
