"""Calendars in exports and imports."""

import json
from datetime import date

import pytest

import duly
from duly import App
from duly.errors import Conflict
from tests.services.transfers import export_lines, import_lines, records

pytestmark = pytest.mark.requirement("L6", "C10")
CLOSED = {date(2026, 8, 4): "Town fair", date(2026, 8, 6): ""}
RULE = duly.except_(duly.cron("0 9 * * *"), "nrw", "next")


async def fill(app: App) -> None:
    app.expect("work")
    await app.calendars.set("nrw", CLOSED, weekend=["friday"])
    await app.schedule("daily", RULE, "work")


async def test_calendars_are_exported_before_the_schedules_that_use_them(
    app: App, other: App
) -> None:
    await fill(app)
    lines = await export_lines(app)
    kinds = [json.loads(each)["kind"] for each in lines]
    assert kinds == ["duly-export", "calendar", "schedule", "delivery", "end"]
    assert "Town fair" not in lines[2].decode()
    other.expect("work")
    assert await import_lines(other, lines) == {
        "calendars": (1, 0),
        "schedules": (1, 0),
        "deliveries": (1, 0),
    }
    assert records(await export_lines(other)) == records(lines)
    assert (await other.calendars.get("nrw")).closed == CLOSED
    there, here = await other.schedules.get("daily"), await app.schedules.get("daily")
    assert (there.rule, there.next_at) == (here.rule, here.next_at)
    assert (await import_lines(other, lines))["calendars"] == (0, 1)
    moved = await other.calendars.set("nrw", {date(2026, 8, 1): "", date(2026, 8, 2): ""})
    assert moved.moved == 1


async def test_a_calendar_that_exists_stays_and_its_days_are_used(app: App, other: App) -> None:
    await fill(app)
    await other.calendars.set("nrw", weekend=["sunday"])
    other.expect("work")
    await import_lines(other, await export_lines(app))
    assert (await other.calendars.get("nrw")).weekend == ("sunday",)
    (found,) = await other.store.schedules.page("", 10)
    assert found.timing.rule.except_.days.weekend == (7,)  # type: ignore[union-attr]


async def test_a_schedule_without_its_calendar_is_refused_by_its_line(app: App, other: App) -> None:
    await fill(app)
    lines = [each for each in await export_lines(app) if b'"kind":"calendar"' not in each]
    ending = json.loads(lines[-1])
    ending["counts"]["calendars"] = 0
    lines[-1] = json.dumps(ending).encode() + b"\n"
    with pytest.raises(Conflict, match="line 2: schedule 'daily' needs the calendar 'nrw'"):
        await import_lines(other, lines)
    assert await other.schedules.list() == []
