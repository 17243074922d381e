"""Other occasions, and where greetings go."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import duly
from birthday.tests.anniversary import Anniversary
from birthday.tests.conftest import serving
from birthday.tests.people import ANN
from duly.errors import BadSetting
from duly.testing import VirtualClock, run_until_idle
from duly_birthday.greetings.birthday import Birthday
from duly_birthday.service import BirthdayApp
from duly_birthday.wire import Birthdays
from tests.transports.receiver import receiver

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ROOT = Path(__file__).parents[2]


@pytest.mark.requirement("B6")
async def test_another_occasion_needs_one_small_file(
    database_url: str, clock: VirtualClock
) -> None:
    async with serving(database_url, clock) as service:
        id = (await service.register())["user"]["id"]
    occasions = (Birthday(), Anniversary())
    async with serving(database_url, clock, occasions=occasions) as service:
        people = Birthdays(service.app, service.app.manner)
        assert [each.id for each in await people.replan(None)] == [id]
        assert await people.replan(id) == []
        await service.register(firstName="Bob")
        assert await service.stored() == (2, 4, 4)
        service.go_to(datetime(2027, 8, 1, 14, tzinfo=UTC))
        await service.run()
        found = await service.app.list(tag="anniversary", state="completed")
        assert len(found) == 2
        assert (await service.client.delete(f"/user/{id}")).status_code == 204
        assert (await service.stored())[:2] == (1, 2)
    shown = (ROOT / "docs" / "birthdays.md").read_text()
    assert (ROOT / "birthday" / "tests" / "anniversary.py").read_text() in shown


@pytest.mark.requirement("B2")
async def test_a_greeting_is_sent_to_the_webhook_signed(
    sqlite_url: str, clock: VirtualClock
) -> None:
    async with receiver() as there:
        environment = {
            "BIRTHDAY_WEBHOOK_URL": there.url(),
            "DULY_WEBHOOK_SECRET": SECRET,
            "DULY_EGRESS_ALLOW": "127.0.0.1/32",
        }
        async with BirthdayApp(sqlite_url, clock=clock, environment=environment) as app:
            user, greeting = await Birthdays(app, app.manner).register(ANN)
            assert greeting is not None
            clock.advance(greeting.due_at - clock.now())
            await run_until_idle(app)
        (taken,) = there.taken
    assert duly.verify(taken.body, taken.headers, SECRET, now=greeting.due_at) == greeting.id
    assert taken.headers["idempotency-key"] == greeting.id
    assert taken.body.decode() == (
        f'{{"eventId":"{greeting.id}","occasion":"birthday","userId":"{user.id}",'
        '"message":"Hey, Ann Lee it\'s your birthday"}'
    )


def test_greetings_are_not_sent_unsigned(sqlite_url: str) -> None:
    environment = {"BIRTHDAY_WEBHOOK_URL": "https://example.org/hey"}
    with pytest.raises(BadSetting, match="webhook_secret: greetings are signed"):
        BirthdayApp(sqlite_url, environment=environment)
