"""A person is registered and greeted, year after year."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from birthday.tests.people import ANN, Service
from duly_birthday.service import BirthdayApp
from duly_birthday.wire import Birthdays

pytestmark = pytest.mark.requirement("B1")
HEY_ANN = "Hey, Ann Lee it's your birthday"


async def test_a_registration_returns_the_next_greeting(service: Service) -> None:
    answer = await service.client.post("/user", json=ANN)
    assert answer.status_code == 201, answer.text
    registered = answer.json()
    user, event = registered["user"], registered["nextBirthdayEvent"]
    assert answer.headers["location"] == f"/user/{UUID(user['id'])}"
    assert user == ANN | {
        "id": user["id"],
        "createdAt": "2026-08-01T07:30:00Z",
        "updatedAt": "2026-08-01T07:30:00Z",
    }
    assert event == {
        "id": event["id"],
        "dueAt": "2026-11-15T14:00:00Z",
        "localTime": "2026-11-15T09:00:00",
        "timezone": "America/New_York",
        "state": "pending",
    }
    assert await service.show(user["id"]) == registered | {"lastBirthdayEvent": None}


async def test_a_greeting_is_sent_at_nine_and_the_next_year_is_planned(
    service: Service,
) -> None:
    id = (await service.register())["user"]["id"]
    service.go_to(datetime(2026, 11, 15, 13, 59, 59, tzinfo=UTC))
    assert await service.run() == 0
    for year in (2026, 2027, 2028):
        service.go_to(datetime(year, 11, 15, 14, tzinfo=UTC))
        assert await service.run() == 1
        shown = await service.show(id)
        assert shown["lastBirthdayEvent"]["dueAt"] == f"{year}-11-15T14:00:00Z"
        assert shown["lastBirthdayEvent"]["state"] == "completed"
        assert shown["nextBirthdayEvent"]["dueAt"] == f"{year + 1}-11-15T14:00:00Z"
    assert await service.greetings() == [HEY_ANN] * 3


async def test_a_worker_on_an_empty_database_creates_the_users_tables(
    empty_database_url: str,
) -> None:
    app = BirthdayApp(empty_database_url, environment={})
    async with app.worker():
        _, greeting = await Birthdays(app, app.manner).register(ANN)
    assert greeting is not None
