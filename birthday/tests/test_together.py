"""User, schedule and first delivery are stored together or not at all, also under races."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from birthday.tests.conftest import serving
from birthday.tests.people import ANN, Service
from duly import App, Conflict, InvalidInput, State
from duly.domain.time.rules import yearly
from duly.failpoints import FailpointRaised, arm
from duly.testing import VirtualClock
from duly_birthday.service import BirthdayApp
from duly_birthday.wire import Birthdays
from tests.support.forks import ROOT, start

pytestmark = pytest.mark.long

RACES = int(os.environ.get("DULY_BIRTHDAY_RACES", "40"))
NINE_IN_LA = datetime(2026, 11, 15, 17, tzinfo=UTC)


@pytest.mark.requirement("B1")
@pytest.mark.parametrize(
    "place", ["schedule.before", "schedule.middle", "complete.before", "complete.middle"]
)
async def test_a_registration_that_fails_anywhere_leaves_nothing(
    service: Service, place: str
) -> None:
    arm(f"{place}=raise@1")
    with pytest.raises(FailpointRaised):
        await Birthdays(service.app, service.app.manner).register(ANN)
    arm("")
    assert await service.stored() == (0, 0, 0)
    await service.register()
    assert await service.stored() == (1, 1, 1)


@pytest.mark.requirement("B1")
async def test_a_user_that_cannot_be_stored_leaves_no_schedule(service: Service) -> None:
    id = (await service.register())["user"]["id"]
    app = service.app
    table = "birthday_users" if app.store.single_owner else "birthday.users"

    async def insert_duplicate() -> None:
        async with app.transaction() as tx:
            await app.schedule("birthday:x", yearly(1, 1), "log", connection=tx)
            await tx.execute(f"insert into {table} select * from {table} where id = '{id}'")

    with pytest.raises(Exception, match=r"(?i)unique"):
        await insert_duplicate()
    assert await service.stored() == (1, 1, 1)


@pytest.mark.requirement("B4")
@pytest.mark.parametrize("place", ["schedule.before", "schedule.middle", "complete.middle"])
async def test_an_edit_or_a_removal_that_fails_changes_nothing(
    service: Service, place: str
) -> None:
    id = (await service.register())["user"]["id"]
    before = await service.show(id)
    birthdays = Birthdays(service.app, service.app.manner)
    for operation in (birthdays.edit(id, {"timezone": "Asia/Tokyo"}, None), birthdays.remove(id)):
        arm(f"{place}=raise@1")
        with pytest.raises(FailpointRaised):
            await operation
        arm("")
        assert await service.show(id) == before


@pytest.mark.requirement("B1")
async def test_schedules_are_declared_created_and_removed_in_a_transaction(
    database_url: str,
) -> None:
    clock = VirtualClock(datetime(2026, 8, 1, tzinfo=UTC))
    async with App(database_url, clock=clock, environment={}) as app:
        app.expect("mail")
        items: list[Any] = [(f"s{n}", yearly(1, 1), "mail", {"n": n}, {}) for n in range(3)]
        for end in (ValueError, None):
            try:
                async with app.transaction() as tx:
                    created = await app.schedule("one", yearly(8, 2), "mail", connection=tx)
                    assert created.change == "created"
                    same = await app.schedule("one", yearly(8, 2), "mail", connection=tx)
                    assert (same.change, same.moved) == ("unchanged", ())
                    moved = await app.schedule("one", yearly(8, 3), "mail", connection=tx)
                    assert moved.moved == (created.next_id,)
                    assert moved.next_at == datetime(2026, 8, 3, 9, tzinfo=UTC)
                    await app.schedules.create_many(items, connection=tx)
                    assert await app.schedules.unfinished("one", connection=tx) == []
                    if end is not None:
                        raise end
            except ValueError:
                assert await app.schedules.list() == []
                assert await app.list() == []
        assert len(await app.list()) == len(await app.schedules.list()) == 4
        with pytest.raises(Conflict, match="schedule 's1' exists already"):
            await app.schedules.create_many(items[1:2])
        with pytest.raises(InvalidInput, match="connection"):
            await app.schedule("one", yearly(8, 3), "mail", connection=object())
        async with app.transaction() as tx:
            await app.schedules.remove("s0", connection=tx)
        assert len(await app.schedules.list()) == 3
        assert len(await app.list(state=State.CANCELLED)) == 1
        actions = Counter(each.action for each in await app.audit.list())
        assert actions == {"schedule.created": 4, "schedule.changed": 1, "schedule.removed": 1}


async def greeted_once(app: BirthdayApp, ids: list[str], year: int) -> None:
    """Everybody once in that year, and at most once in any."""
    for id in ids:
        found = await app.list(schedule=f"birthday:{id}", state=State.COMPLETED)
        years = Counter(each.scheduled_for.year for each in found if each.scheduled_for)
        assert years[year] == 1, (id, years)
        assert set(years.values()) == {1}


@pytest.mark.requirement("B5")
async def test_zone_edits_concurrent_with_claims_give_one_greeting_a_year(service: Service) -> None:
    people = [ANN | {"timezone": "America/Los_Angeles"}] * RACES
    answer = await service.client.post("/user/bulk", json=people)
    ids = answer.json()["ids"]
    service.go_to(NINE_IN_LA)

    async def there_and_back(id: str) -> None:
        await service.edit(id, timezone="Asia/Tokyo")
        await service.edit(id, timezone="America/Los_Angeles", lastName="Ng")

    await asyncio.gather(service.run(), *map(there_and_back, ids))
    await service.run()
    await greeted_once(service.app, ids, 2026)
    service.go_to(datetime(2027, 12, 1, tzinfo=UTC))
    await service.run()
    await greeted_once(service.app, ids, 2027)
    latest = (await service.greetings())[-RACES:]
    assert set(latest) == {"Hey, Ann Ng it's your birthday"}


@pytest.mark.requirement("B5")
async def test_zone_edits_concurrent_with_claims_of_another_process_give_one_greeting_a_year(
    postgres_url: str, clock: VirtualClock
) -> None:
    async with serving(postgres_url, clock) as service:
        people = [ANN | {"timezone": "America/Los_Angeles"}] * RACES
        ids = (await service.client.post("/user/bulk", json=people)).json()["ids"]
        service.go_to(NINE_IN_LA)
        worker = start(
            "birthday.tests.worker", postgres_url, NINE_IN_LA.isoformat(), "2",
            cwd=ROOT, stdin=-1, stdout=-1,
        )  # fmt: skip
        assert worker.stdout is not None
        assert worker.stdin is not None
        await asyncio.to_thread(worker.stdout.readline)
        skipped = 0
        for id in ids:
            skipped += (await service.edit(id, timezone="Asia/Tokyo"))["skipped"]
            skipped += (await service.edit(id, timezone="America/Los_Angeles"))["skipped"]
        await asyncio.to_thread(worker.communicate, b"")
        assert worker.returncode == 0
        await service.run()
        await greeted_once(service.app, ids, 2026)
