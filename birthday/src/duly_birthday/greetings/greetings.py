"""Greetings: each person has one yearly schedule for each occasion, and users' events change it.

There is one greeting per person, occasion and local year, also after edits: the local year
identifies the occurrence, and the locks of the store decide whether an edit or a claim is first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from typing import Any, Literal

import msgspec

import duly
from duly import DeliveryRecord
from duly_birthday.greetings.occasion import Occasion
from duly_birthday.users.events import (
    Feb29,
    Person,
    UserBirthdayChanged,
    UserEvent,
    UserRegistered,
    UserRemoved,
    UserTimezoneChanged,
)

MOVING = (UserBirthdayChanged, UserTimezoneChanged)
LOOKED_AT = 5
"""How many greetings are searched for the next and the last one."""
PAST_EVERYWHERE = timedelta(days=2)
"""This long after a day began in UTC, it has ended in every zone."""
LONGEST_CLOSED = timedelta(days=300)
"""How far a calendar may move a greeting."""
Move = Literal["skip", "next", "previous"]
Target = Any
"""The target of greetings: a handler's name, or a webhook."""
Item = tuple[str, Any, Target, Any, Mapping[str, Any]]
"""The arguments of a schedule: its name, rule, target, payload and options."""


class Manner(msgspec.Struct, frozen=True):
    """The settings of greetings."""

    target: Target
    at: time
    feb29: Feb29
    occasions: tuple[Occasion, ...]
    calendar: str | None = None
    """The calendar on whose closed days nobody is greeted."""
    move: Move = "next"
    """Whether they are greeted on the next or the previous business day, or not at all."""


class Greeting(msgspec.Struct, frozen=True):
    """The delivery of a greeting."""

    id: str
    due_at: datetime
    state: str


class Report(msgspec.Struct):
    """The result of events: the next greeting, how many moved, and which are being sent."""

    next: Greeting | None = None
    moved: int = 0
    skipped: list[str] = []


class Greetings:
    """The greetings of one app's users."""

    def __init__(self, app: duly.Namespace, manner: Manner) -> None:
        self._app = app
        self._manner = manner

    async def react(self, transaction: Any, events: Sequence[UserEvent]) -> Report:
        """Update the schedules after events, in the transaction in which they happened."""
        report = Report()
        registered = [each.person for each in events if isinstance(each, UserRegistered)]
        if len(registered) > 1:
            await self._greet_many(transaction, registered)
            return report
        for person, kinds in _by_person(events):
            if UserRemoved in kinds:
                await self._forget(transaction, person)
            else:
                moves = any(kind in MOVING for kind in kinds)
                await self._greet(transaction, person, report, moves=moves)
        return report

    async def _greet(
        self, transaction: Any, person: Person, report: Report, *, moves: bool
    ) -> None:
        """Declare the schedules of a person; greetings that are being sent do not change."""
        schedules = self._app.schedules
        for name, *declaration, options in self._items(person):
            declared = await schedules.declare(
                name, *declaration, connection=transaction, **options
            )
            report.moved += len(declared.moved) if moves else 0
            report.next = report.next or _upcoming(declared)
            if declared.change == "changed":
                unfinished = await schedules.unfinished(name, connection=transaction)
                report.skipped += [each for each in unfinished if each not in declared.moved]

    async def _greet_many(self, transaction: Any, people: Iterable[Person]) -> None:
        items = [item for person in people for item in self._items(person)]
        await self._app.schedules.create_many(items, connection=transaction)

    async def _forget(self, transaction: Any, person: Person) -> None:
        for occasion in self._manner.occasions:
            # It may be removed already; then nothing is pending either.
            with suppress(duly.NotFound):
                await self._app.schedules.remove(_name(occasion, person.id), connection=transaction)

    async def renew(self, transaction: Any, person: Person) -> None:
        """Declare the schedules of a person again."""
        await self._greet(transaction, person, Report(), moves=False)

    def _items(self, person: Person) -> list[Item]:
        """The schedules of a person."""
        return [self._item(occasion, person) for occasion in self._manner.occasions]

    def _item(self, occasion: Occasion, person: Person) -> Item:
        day, manner = occasion.day(person), self._manner
        feb29 = person.feb29 or manner.feb29
        rule = duly.yearly(day.month, day.day, manner.at, person.timezone, feb29)
        if manner.calendar is not None:
            rule = duly.except_(rule, manner.calendar, manner.move)
        payload = {
            "eventId": duly.DELIVERY_ID,
            "occasion": occasion.name,
            "userId": person.id,
            "message": occasion.text(person),
        }
        options: dict[str, Any] = {"tags": [occasion.name]}
        if day.year >= person.since.year - 1:
            # The day of birth itself is not greeted, also if an edit moves a pending greeting to
            # it. The year before: in some zones it may still be that year.
            options["start"] = datetime(day.year, day.month, day.day, tzinfo=UTC) + self._past()
        return _name(occasion, person.id), rule, manner.target, payload, options

    def _past(self) -> timedelta:
        """How long after the beginning of a day its greeting has passed, also a moved one."""
        moves = self._manner.calendar is not None and self._manner.move == "next"
        return PAST_EVERYWHERE + (LONGEST_CLOSED if moves else timedelta())

    async def of(self, id: str) -> tuple[Greeting | None, Greeting | None]:
        """The next greeting of a user, which may be in progress, and the last finished one."""
        name = _name(self._manner.occasions[0], id)
        found = await self._app.list(schedule=name, limit=LOOKED_AT)
        open_ones = [each for each in found if each.finished_at is None and each.dead_at is None]
        ended = [each for each in found if each.state in ("completed", "dead")]
        return (
            _greeting(min(open_ones, key=lambda each: each.due_at)) if open_ones else None,
            _greeting(ended[0]) if ended else None,
        )


def _name(occasion: Occasion, id: str) -> str:
    return f"{occasion.name}:{id}"


def _by_person(events: Sequence[UserEvent]) -> list[tuple[Person, set[type[UserEvent]]]]:
    """Each person as of the last event, with the kinds of all its events."""
    people: dict[str, Person] = {}
    kinds: dict[str, set[type[UserEvent]]] = {}
    for event in events:
        people[event.person.id] = event.person
        kinds.setdefault(event.person.id, set()).add(type(event))
    return [(person, kinds[id]) for id, person in people.items()]


def _upcoming(declared: Any) -> Greeting | None:
    if declared.next_id is None or declared.next_at is None:
        return None
    return Greeting(declared.next_id, declared.next_at, "pending")


def _greeting(delivery: DeliveryRecord) -> Greeting:
    return Greeting(delivery.id, delivery.due_at, delivery.state)
