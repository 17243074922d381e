"""Greetings: each person has one yearly schedule for each occasion, and users' events change it.

One greeting per person, occasion and local year, also after edits: a schedule's occurrence is
known by its local year, and which edit or claim came first is decided by the store, under locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from typing import Any

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
"""How many years of greetings are looked through for the next and the last."""
PAST_EVERYWHERE = timedelta(days=2)
"""So long after a day began in UTC it is over in every zone."""
Target = Any
"""Where greetings go: a handler's name, or a webhook."""
Item = tuple[str, Any, Target, Any, Mapping[str, Any]]
"""A schedule as duly takes it: its name, rule, target, payload and options."""


class Manner(msgspec.Struct, frozen=True):
    """How people are greeted."""

    target: Target
    at: time
    feb29: Feb29
    occasions: tuple[Occasion, ...]


class Greeting(msgspec.Struct, frozen=True):
    """A greeting on the books."""

    id: str
    due_at: datetime
    state: str


class Report(msgspec.Struct):
    """What came of events: the next greeting, how many moved, and which are being sent."""

    next: Greeting | None = None
    moved: int = 0
    skipped: list[str] = []


class Greetings:
    """The greetings of one app's users."""

    def __init__(self, app: duly.Namespace, manner: Manner) -> None:
        self._app = app
        self._manner = manner

    async def react(self, transaction: Any, events: Sequence[UserEvent]) -> Report:
        """Do what follows from events, in the transaction in which they happened."""
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
        """Have the schedules say what holds now; what is being sent goes out as it was."""
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
            # Somebody may have removed it already; then there is nothing pending either.
            with suppress(duly.NotFound):
                await self._app.schedules.remove(_name(occasion, person.id), connection=transaction)

    async def renew(self, transaction: Any, person: Person) -> None:
        """Have somebody's schedules say what holds now, whoever changed what."""
        await self._greet(transaction, person, Report(), moves=False)

    def _items(self, person: Person) -> list[Item]:
        """The schedules of a person."""
        return [self._item(occasion, person) for occasion in self._manner.occasions]

    def _item(self, occasion: Occasion, person: Person) -> Item:
        day, manner = occasion.day(person), self._manner
        feb29 = person.feb29 or manner.feb29
        rule = duly.yearly(day.month, day.day, manner.at, person.timezone, feb29)
        said = {
            "eventId": duly.DELIVERY_ID,
            "occasion": occasion.name,
            "userId": person.id,
            "message": occasion.text(person),
        }
        options: dict[str, Any] = {"tags": [occasion.name]}
        if day.year >= person.since.year - 1:
            # Its return is greeted, and not the day itself, to which an edit may move what is
            # pending; where it is the year before still, that year's may be to come.
            options["start"] = datetime(day.year, day.month, day.day, tzinfo=UTC) + PAST_EVERYWHERE
        return _name(occasion, person.id), rule, manner.target, said, options

    async def of(self, id: str) -> tuple[Greeting | None, Greeting | None]:
        """Somebody's next greeting, be it on its way, and the last one that ended."""
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
    """Each person as the last event shows it, with all that happened to it."""
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
