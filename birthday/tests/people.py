"""People to register, and short ways to call the service."""

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
        """Register a person; Ann, except for the given fields."""
        answer = await self.client.post("/user", json=ANN | fields)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def show(self, id: str) -> dict[str, Any]:
        """Read a user."""
        answer = await self.client.get(f"/user/{id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def edit(self, id: str, **fields: Any) -> dict[str, Any]:
        """Edit a user, successfully."""
        answer = await self.client.put(f"/user/{id}", json=fields)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def refused(self, **fields: Any) -> dict[str, Any]:
        """Why a person cannot be registered, by field; nothing is stored."""
        return reasons(await self.client.post("/user", json=ANN | fields))

    async def run(self, send: Send | None = None) -> int:
        """Send everything that is due, with another transport if given."""
        transport = None if send is None else Sending(send)
        return await run_until_idle(self.app, transport=transport)

    def go_to(self, moment: datetime) -> None:
        """Advance the clock to a moment."""
        assert isinstance(self.app.clock, VirtualClock)
        self.app.clock.advance(moment - self.app.clock.now())

    async def greetings(self, state: State = State.COMPLETED) -> list[str]:
        """The texts of the greetings, oldest first."""
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
    """A transport that calls a function."""

    def __init__(self, send: Send) -> None:
        super().__init__("log")
        self._send = send

    async def attempt(self, execution: Execution) -> Outcome:
        """Send the text of the greeting."""
        return await self._send(message(msgspec.Raw(execution.claimed.payload)))


def message(payload: msgspec.Raw) -> str:
    """The text of a greeting."""
    text: str = msgspec.json.decode(payload)["message"]
    return text


def reasons(answer: Response) -> dict[str, Any]:
    """The reasons of a refusal, by field."""
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["code"] == "VALIDATION_FAILED"
    assert error["message"]
    return {each["field"]: each["reason"] for each in error["details"]}
