"""An operation that was already done changes nothing, and is no error."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

import duly
from duly import App
from duly.testing import VirtualClock

pytestmark = pytest.mark.requirement("S2", "S6", "C4")
Operation = Callable[[App, str], Awaitable[Any]]


async def revoke(app: App, _: str) -> Any:
    (key,) = await app.keys.list()
    return await app.keys.revoke(key.id)


OPERATIONS: dict[str, Operation] = {
    "cancel": lambda app, id: app.cancel(id),
    "schedules.pause": lambda app, _: app.schedules.pause("daily", "holidays"),
    "schedules.resume": lambda app, _: app.schedules.resume("daily"),
    "schedule": lambda app, _: app.schedule("daily", duly.every("1d"), "work"),
    "streams.pause": lambda app, _: app.streams.pause("line", "holidays"),
    "streams.resume": lambda app, _: app.streams.resume("line"),
    "streams.configure": lambda app, _: app.streams.configure("line", on_failure="release"),
    "endpoints.pause": lambda app, _: app.endpoints.pause("there", "holidays"),
    "endpoints.resume": lambda app, _: app.endpoints.resume("there"),
    "endpoints.edit": lambda app, _: app.endpoints.edit("there", rate=7.0),
    "keys.revoke": revoke,
}


async def test_every_repeated_operation_changes_nothing(app: App, clock: VirtualClock) -> None:
    app.expect("work")
    id = (await app.deliver("work", after=60, stream="line")).id
    await app.deliver("work", after=90, stream="line")
    await app.schedule("daily", duly.every("1d"), "work")
    await app.endpoints.add("there", "https://example.org/in")
    await app.keys.create("mine")
    for name, operation in OPERATIONS.items():
        first = await operation(app, id)
        before = [each.id for each in await app.audit.list()]
        # Later, since a changed time would otherwise not be noticed.
        clock.advance(1)
        second = await operation(app, id)
        after = [each.id for each in await app.audit.list()]
        assert after == before, f"a repeated {name} is in the audit trail"
        if name == "schedule":
            assert second == msgspec.structs.replace(first, change="unchanged", moved=())
        else:
            assert second == first, name
