"""Greetings on the right day after any edit: through `PUT /user` and `app.schedule`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from birthday.tests.people import Service
from duly import DeliveryRecord, State, yearly
from duly.domain.time.rules import Yearly
from duly.engine.planner import Planner
from tests.domain.years import Oracle

pytestmark = pytest.mark.long

BORN = 1992
ZONES = ["America/Los_Angeles", "Asia/Tokyo", "Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"]


@pytest.mark.requirement("B2", "B4", "B5")
async def test_a_birthday_edited_to_a_past_day_and_back_is_greeted_on_its_day(
    service: Service,
) -> None:
    id = (await service.register(dateOfBirth="1990-08-03", timezone="UTC"))["user"]["id"]
    await service.edit(id, dateOfBirth="1990-01-13")
    assert (await service.show(id))["nextBirthdayEvent"]["dueAt"] == "2027-01-13T09:00:00Z"
    assert await service.run() == 0
    edited = await service.edit(id, dateOfBirth="1990-08-03")
    assert (edited["rescheduled"], edited["skipped"]) == (1, 0)
    service.go_to(datetime(2026, 8, 3, 9, tzinfo=UTC))
    assert await service.run() == 1
    assert (await service.show(id))["nextBirthdayEvent"]["dueAt"] == "2027-08-03T09:00:00Z"


@pytest.mark.requirement("B4")
async def test_a_late_greeting_that_is_not_being_sent_gets_the_new_name(service: Service) -> None:
    id = (await service.register(dateOfBirth="1990-08-03", timezone="UTC"))["user"]["id"]
    service.go_to(datetime(2026, 8, 5, tzinfo=UTC))
    await plan(service)
    edited = await service.edit(id, lastName="Ng")
    assert (edited["skipped"], edited["skippedIds"]) == (0, [])
    moved = await service.edit(id, timezone="Asia/Tokyo")
    assert (moved["rescheduled"], moved["skipped"]) == (2, 0)
    assert await service.run() == 1
    assert await service.greetings() == ["Hey, Ann Ng it's your birthday"]


@pytest.mark.requirement("B2")
async def test_the_body_of_a_greeting_has_its_id_after_an_edit_too(service: Service) -> None:
    registered = await service.register(dateOfBirth="1990-08-03", timezone="UTC")
    id, event = registered["user"]["id"], registered["nextBirthdayEvent"]["id"]
    assert await event_ids(service, id) == {event: event}
    name = '"{{delivery.id}}"'
    await service.edit(id, firstName=name, dateOfBirth="1990-08-04")
    service.go_to(datetime(2026, 8, 4, 9, tzinfo=UTC))
    await service.run()
    found = await event_ids(service, id)
    assert (len(found), found[event]) == (2, event)
    assert all(key == value for key, value in found.items())
    assert await service.greetings() == [f"Hey, {name} Lee it's your birthday"]


async def event_ids(service: Service, id: str) -> dict[str, str]:
    found = await service.app.list(schedule=f"birthday:{id}")
    return {each.id: each.payload["eventId"] for each in found}


class Person:
    """A person, a model of their greetings, and their schedule."""

    def __init__(self, service: Service, rule: Yearly) -> None:
        self.service, self.rule, self.before = service, rule, rule
        self.oracle = Oracle(rule, service.app.clock.now())
        self.name = ""
        self.greeted: list[int] = []

    def day(self) -> dict[str, str]:
        rule = self.rule
        born = f"{BORN}-{rule.month:02}-{rule.day:02}"
        return {"dateOfBirth": born, "timezone": rule.tz, "feb29": rule.feb29}

    async def register(self) -> None:
        user = (await self.service.register(**self.day()))["user"]
        self.id, self.name = user["id"], f"birthday:{user['id']}"

    async def edit(self, rule: Yearly) -> None:
        self.before, self.rule = self.rule, rule
        self.oracle.edit(rule)
        await self.service.edit(self.id, **self.day())

    async def check(self) -> None:
        """Compare sent and pending greetings with the model."""
        app, oracle = self.service.app, self.oracle
        done = await app.list(schedule=self.name, state=State.COMPLETED)
        due = await app.list(schedule=self.name, state=State.PENDING)
        assert sorted(local_year(each) for each in done) == sorted(self.greeted)
        upcoming = (await app.schedules.get(self.name)).next_at
        assert oracle.upcoming is not None
        assert upcoming == oracle.upcoming[1]
        assert len(due) == len(oracle.due) + 1


class Declared(Person):
    """The same with a schedule of their own."""

    async def register(self) -> None:
        self.name = f"own {id(self)}"
        await self._declare()

    async def _declare(self) -> None:
        await self.service.app.schedule(self.name, self.rule, "log", {"message": "hello"})

    async def edit(self, rule: Yearly) -> None:
        self.before, self.rule = self.rule, rule
        self.oracle.edit(rule)
        await self._declare()


@pytest.mark.requirement("B2", "B4", "B5", "C2", "C3")
@pytest.mark.parametrize("kind", [Person, Declared])
@pytest.mark.parametrize("seed", range(3))
async def test_with_edits_outages_and_claims_each_year_is_greeted_at_the_right_time(
    service: Service, kind: type[Person], seed: int
) -> None:
    chance = Random(seed)
    people = [kind(service, any_rule(chance)) for _ in range(12)]
    for person in people:
        await person.register()
    for _ in range(14):
        now = service.app.clock.now() + any_wait(chance)
        service.go_to(now)
        for person in people:
            person.oracle.wait(now)
        if chance.random() < 0.4:
            await plan(service)
        await edit_some(people, chance)
        if chance.random() < 0.4:
            await end_outage(service, people)
    await end_outage(service, people)
    assert sum(len(person.greeted) for person in people) > len(people)


async def edit_some(people: list[Person], chance: Random) -> None:
    for person in people:
        if (number := chance.random()) < 0.35:
            await person.edit(person.before if number < 0.15 else any_rule(chance))


async def end_outage(service: Service, people: list[Person]) -> None:
    """End the outage: everything due is sent."""
    await service.run()
    for person in people:
        oracle = person.oracle
        person.greeted += oracle.due
        oracle.claim(sorted(oracle.due))
        await person.check()


def local_year(delivery: DeliveryRecord) -> int:
    """The local year of the day for which it was made."""
    assert delivery.scheduled_for is not None
    return (delivery.scheduled_for + timedelta(hours=12)).year


def any_rule(chance: Random) -> Yearly:
    day = chance.choice([1, 2, 15, 28])
    return yearly(chance.randint(1, 12), day, "09:00", chance.choice(ZONES))


def any_wait(chance: Random) -> timedelta:
    return chance.choice(
        [timedelta(hours=chance.randint(0, 30)), timedelta(days=chance.randint(0, 400))]
    )


async def plan(service: Service) -> None:
    """Run a planner, and no worker."""
    app = service.app
    planner = Planner(app.store, app.clock, app.chance, lambda _event: None, poll=1)
    await planner.catch_up()
