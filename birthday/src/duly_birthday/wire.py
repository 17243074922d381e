"""Connects users and greetings: the events of users are handled in the same transaction."""

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
    """A refused user: the index in the request, and why."""

    index: int
    problems: list[Problem]


class BulkRegistration(msgspec.Struct, frozen=True):
    """The result of a bulk registration: new, known and refused users."""

    created: list[User]
    ids: list[str]
    """The ids of new and known users, in their order."""
    refused: list[Refused]

    @property
    def known(self) -> int:
        """How many were registered already."""
        return len(self.ids) - len(self.created)


class Calendar:
    """Time zones as duly knows them, and its clock."""

    def __init__(self, app: Namespace) -> None:
        self._clock = app.clock

    def has(self, zone: str) -> bool:
        """Whether the zone exists."""
        return zone in zones.names()

    def today(self, zone: str) -> date:
        """The current date in the zone."""
        return self._clock.now().astimezone(zones.zone(zone)).date()


class Birthdays:
    """The users of an app and their greetings; every change is one transaction."""

    def __init__(self, app: Namespace, manner: Manner) -> None:
        self._app = app
        self._calendar = Calendar(app)
        self.clock = app.clock
        self.dialect = dialect_of(app)
        self._users = Directory(self.dialect, app.clock.now, app.chance.delivery_id)
        self._greetings = Greetings(app, manner)

    async def register(self, given: Given, id: str | None = None) -> tuple[User, Greeting | None]:
        """Register one user, with the schedule and the first greeting; with an `id`, once."""
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
    ) -> BulkRegistration:
        """Register many users in one transaction; invalid ones are returned and left out.

        With `ids`, those whose id exists are not registered again.
        """
        fields, refused = await self._sorted(people, ids)
        if not fields:
            return BulkRegistration([], [], refused)
        created: list[User] = []
        async with self._app.transaction() as transaction:
            # In batches: planning a thousand birthdays at once would block the event loop.
            for start in range(0, len(fields), AT_ONCE):
                batch = fields[start : start + AT_ONCE]
                new, events = await self._users.register(transaction, batch)
                await self._greetings.react(transaction, events)
                created += new
        registered = (
            [each["id"] for each in fields] if ids is not None else [each.id for each in created]
        )
        return BulkRegistration(created, registered, refused)

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
        """Change some fields of a user, and the pending greetings."""
        fields = checked(given, self._calendar, partial=True)
        async with self._app.transaction() as transaction:
            user, events = await self._users.edit(transaction, checked_id(id), fields, version)
            report = await self._greetings.react(transaction, events)
        if report.skipped:
            _log_skipped(user.id, report.skipped)
        return user, report

    async def remove(self, id: str) -> None:
        """Remove a user; pending greetings are cancelled, those being sent are finished."""
        async with self._app.transaction() as transaction:
            events = await self._users.remove(transaction, checked_id(id))
            await self._greetings.react(transaction, events)

    async def replan(self, after: str | None) -> Sequence[User]:
        """Update the schedules of a page of users after the id `after`; returns the users."""
        async with self._app.transaction() as transaction:
            people = await self._users.page(transaction, after, REPLANNED_AT_ONCE)
            for user in people:
                await self._greetings.renew(transaction, user.person())
        return people


def _log_skipped(user: str, greetings: Sequence[str]) -> None:
    facts = {"user": user, "deliveries": list(greetings)}
    logger.warning(
        "user %s was edited while greetings were being sent, which are not changed: %s",
        user,
        ", ".join(greetings),
        extra={"event": "GreetingsUnchanged", "facts": facts},
    )


async def bring_up(app: Namespace) -> None:
    """Create or migrate the users' tables."""
    async with app.transaction() as transaction:
        await migrations.migrate(transaction, dialect_of(app))


def dialect_of(app: Namespace) -> Dialect:
    """The SQL dialect of the app's database."""
    return "sqlite" if app.store.single_owner else "postgres"


def checked_id(id: str, field: str = "id") -> str:
    """A user's id in its usual spelling."""
    try:
        return str(UUID(id))
    except ValueError:
        raise InvalidUser([Problem(field, f"{id[:60]!r} is not a UUID")]) from None
