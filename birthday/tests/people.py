"""People to register, and what to ask of the service about them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import msgspec
from httpx import AsyncClient, Response

from duly import State
from duly.domain.deliveries.outcomes import Outcome
from duly.ports import Execution
from duly.testing import RecordingTransport, VirtualClock, run_until_idle
from duly_birthday.service import BirthdayApp
from duly_birthday.users.sql import SQL
from duly_birthday.wire import dialect_of

Send = Callable[[str], Awaitable[Outcome]]
ANN: dict[str, Any] = {
    "firstName": "Ann",
    "lastName": "Lee",
    "dateOfBirth": "1990-11-15",
    "timezone": "America/New_York",
}


class Service:
    """The service and its clock."""

    def __init__(self, app: BirthdayApp, client: AsyncClient) -> None:
        self.app = app
        self.client = client

    async def register(self, **fields: Any) -> dict[str, Any]:
        """Somebody new; Ann, but for the fields."""
        answer = await self.client.post("/user", json=ANN | fields)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def show(self, id: str) -> dict[str, Any]:
        """All that is known of a user."""
        answer = await self.client.get(f"/user/{id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def edit(self, id: str, **fields: Any) -> dict[str, Any]:
        """An edit that is taken."""
        answer = await self.client.put(f"/user/{id}", json=fields)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def refused(self, **fields: Any) -> dict[str, Any]:
        """Why somebody cannot be registered, by field; nothing is stored."""
        return reasons(await self.client.post("/user", json=ANN | fields))

    async def run(self, send: Send | None = None) -> int:
        """Send all that is due, maybe in another way."""
        transport = None if send is None else Sending(send)
        return await run_until_idle(self.app, transport=transport)

    def go_to(self, moment: datetime) -> None:
        """Move the clock on to a moment."""
        assert isinstance(self.app.clock, VirtualClock)
        self.app.clock.advance(moment - self.app.clock.now())

    async def greetings(self, state: State = State.COMPLETED) -> list[str]:
        """What was said, the oldest first."""
        found = await self.app.list(tag="birthday", state=state)
        return [message(each.payload_json) for each in sorted(found, key=lambda each: each.due_at)]

    async def stored(self) -> tuple[int, int, int]:
        """How many users, schedules and deliveries there are."""
        async with self.app.transaction() as tx:
            page = SQL[dialect_of(self.app)].page
            users = await tx.fetch(page, "00000000-0000-0000-0000-000000000000", 1000)
        schedules = await self.app.schedules.list(limit=200)
        return len(users), len(schedules), len(await self.app.list(limit=200))


class Sending(RecordingTransport):
    """Stands in for whatever sends greetings."""

    def __init__(self, send: Send) -> None:
        super().__init__("log")
        self._send = send

    async def attempt(self, execution: Execution) -> Outcome:
        """Send what the greeting says."""
        return await self._send(message(msgspec.Raw(execution.claimed.payload)))


def message(payload: msgspec.Raw) -> str:
    """What a greeting says."""
    text: str = msgspec.json.decode(payload)["message"]
    return text


def reasons(answer: Response) -> dict[str, Any]:
    """The reasons of a refusal, by field."""
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["code"] == "VALIDATION_FAILED"
    assert error["message"]
    return {each["field"]: each["reason"] for each in error["details"]}
