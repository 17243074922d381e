"""Many schedules are paused or resumed by name or by part of a name, and no others."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from duly import App, every
from duly.errors import InvalidInput
from duly.records.dead_letter import BulkProgress
from duly.testing import VirtualClock

pytestmark = pytest.mark.requirement("F11", "S5")


async def moved(moves: AsyncIterator[BulkProgress]) -> int:
    found = [each async for each in moves]
    assert all(each.done <= each.total for each in found)
    return found[-1].done if found else 0


async def paused(app: App) -> list[str]:
    listed = await app.schedules.list(limit=1000)
    return [each.name for each in listed if each.state == "paused"]


async def declare(app: App, *names: str) -> None:
    app.expect("work")
    for name in names:
        await app.schedule(name, every("1h"), "work")


async def test_those_with_a_text_in_their_name_are_paused_and_resumed(app: App) -> None:
    await declare(app, "Report-a", "other", *(f"daily-report-{n:03}" for n in range(120)))
    assert await app.schedules.count(text="report") == 121
    assert await moved(app.schedules.pause_all(text="report", reason="repair")) == 121
    assert "other" not in await paused(app)
    assert (await app.schedules.get("Report-a")).pause_reason == "repair"
    assert await app.schedules.count(text="report") == 0
    assert await app.schedules.count(text="report", paused=True) == 121
    assert await moved(app.schedules.resume_all(text="report")) == 121
    assert await paused(app) == []


async def test_those_with_the_given_names_are_paused_and_unknown_names_match_nothing(
    app: App,
) -> None:
    await declare(app, "a", "b", "c")
    await app.schedules.pause("a", "before")
    assert await app.schedules.count(names=["a", "b", "unknown", "b"]) == 1
    assert await moved(app.schedules.pause_all(names=["a", "b", "unknown"])) == 1
    assert await paused(app) == ["a", "b"]
    assert (await app.schedules.get("a")).pause_reason == "before"
    assert await moved(app.schedules.pause_all()) == 1
    assert await paused(app) == ["a", "b", "c"]


async def test_schedules_created_after_until_are_left_alone(app: App, clock: VirtualClock) -> None:
    await declare(app, "old")
    until = clock.now()
    clock.advance(1)
    await declare(app, "new")
    assert await moved(app.schedules.pause_all(until=until)) == 1
    assert await paused(app) == ["old"]


async def test_each_pause_is_in_the_audit_trail(app: App) -> None:
    await declare(app, "a", "b")
    await moved(app.schedules.pause_all(text="a"))
    actions = [(each.action, each.subject) for each in await app.audit.list()]
    assert ("schedule.paused", "a") in actions
    assert ("schedule.paused", "b") not in actions


@pytest.mark.parametrize(
    ("given", "field"),
    [({"names": "a"}, "names"), ({"names": [""]}, "names"), ({"text": ""}, "text")],
)
async def test_a_bad_filter_is_refused(small_app: App, given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await small_app.schedules.count(**given)
    assert refused.value.field == field
