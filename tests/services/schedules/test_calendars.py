"""Calendars as users set them, and the schedules that use them."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

import duly
from duly import App
from duly.errors import Conflict, InvalidInput, NotFound
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import START, record_payloads

pytestmark = pytest.mark.requirement("L6")

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NINE = duly.cron("0 9 * * *")
CLOSED = {date(2026, 8, 4): "Town fair"}
"""START is Saturday, 1 August 2026; this is a Tuesday."""


def on(day: int, hour: int = 9) -> datetime:
    return datetime(2026, 8, day, hour, tzinfo=UTC)


async def due_moments(app: App, name: str) -> list[datetime]:
    """The moments of all deliveries that the schedule has made so far."""
    found = await app.list(schedule=name, limit=100)
    return sorted(each.scheduled_for for each in found if each.scheduled_for is not None)


async def test_a_calendar_is_set_shown_listed_and_removed(app: App) -> None:
    created = await app.calendars.set("nrw", CLOSED)
    assert (created.change, created.version, created.moved) == ("created", 1, 0)
    found = await app.calendars.get("nrw")
    assert (found.closed, found.weekend) == (CLOSED, ("saturday", "sunday"))
    assert (await app.calendars.set("nrw", CLOSED)).change == "unchanged"
    changed = await app.calendars.set("nrw", [date(2026, 8, 5)], weekend=["friday"])
    assert (changed.change, changed.version) == ("changed", 2)
    assert (changed.closed, changed.weekend) == ({date(2026, 8, 5): ""}, ("friday",))
    await app.calendars.set("a", weekend=["sunday", "friday"])
    first, second = await app.calendars.list()
    assert (first.name, first.weekend, first.dates, first.last_date) == (
        *("a", ("friday", "sunday")),
        *(0, None),
    )
    assert (second.name, second.dates, second.last_date, second.schedules) == (
        *("nrw", 1),
        *(date(2026, 8, 5), 0),
    )
    assert [each.name for each in await app.calendars.list(after="a", limit=1)] == ["nrw"]
    await app.calendars.remove("nrw")
    with pytest.raises(NotFound, match="no calendar 'nrw'"):
        await app.calendars.get("nrw")
    entries = [(each.action, each.subject) for each in await app.audit.list()]
    assert entries[::-1] == [
        ("calendar.created", "nrw"),
        ("calendar.changed", "nrw"),
        ("calendar.created", "a"),
        ("calendar.removed", "nrw"),
    ]


async def test_a_namespace_has_calendars_of_its_own(app: App) -> None:
    await app.calendars.set("nrw", CLOSED)
    assert await app.within("other").calendars.list() == []


async def test_an_edit_of_an_old_version_is_refused(app: App) -> None:
    await app.calendars.set("nrw", CLOSED, version=0)
    for version in (0, 2):
        with pytest.raises(Conflict, match="is at version 1"):
            await app.calendars.set("nrw", version=version)
        with pytest.raises(Conflict, match="is at version 1"):
            await app.calendars.remove("nrw", version=version)
    assert (await app.calendars.get("nrw")).closed == CLOSED


async def test_closed_days_are_left_out(app: App) -> None:
    record_payloads(app)
    await app.calendars.set("nrw", CLOSED)
    declared = await app.schedule("daily", duly.except_(NINE, "nrw"), "work")
    assert declared.next_at == on(3)
    assert (declared.rule.calendar, declared.rule.move) == ("nrw", "skip")
    assert declared.description == "at 09:00 every day, UTC, not on closed days of nrw"
    await run_until_idle(app, within=7 * DAY)
    assert await due_moments(app, "daily") == [on(3), on(5), on(6), on(7), on(10)]
    again = await app.schedule("daily", duly.except_(NINE, "nrw"), "work")
    assert (again.change, again.version) == ("unchanged", 1)


@pytest.mark.parametrize("move", ["next", "previous"])
async def test_moments_that_are_moved_to_the_same_day_are_one(app: App, move: Any) -> None:
    record_payloads(app)
    await app.calendars.set("nrw", CLOSED)
    await app.schedule("daily", duly.except_(NINE, "nrw", move), "work")
    await run_until_idle(app, within=7 * DAY)
    assert await due_moments(app, "daily") == [on(each) for each in (3, 5, 6, 7, 10)]


@pytest.mark.parametrize(
    ("move", "days"),
    [("skip", [6, 10, 12]), ("next", [5, 6, 10, 12]), ("previous", [3, 6, 7, 10, 12])],
)
async def test_missed_moments_are_caught_up_by_the_calendar(
    app: App, clock: VirtualClock, move: Any, days: list[int]
) -> None:
    record_payloads(app)
    await app.calendars.set("nrw", CLOSED)
    # On days 4 (closed), 6, 8 (a Saturday), 10 and 12.
    even = duly.except_(duly.cron("0 9 4,6,8,10,12 * *"), "nrw", move)
    await app.schedule("even", even, "work", catch_up="all")
    clock.advance(on(12, 8) - START)
    await run_until_idle(app)
    assert [each.day for each in await due_moments(app, "even")] == days
    schedule = await app.schedules.get("even")
    assert (schedule.runs, schedule.next_at) == (len(days) - 1, on(12))


async def test_an_edit_of_the_calendar_moves_what_is_not_due(app: App) -> None:
    record_payloads(app)
    await app.calendars.set("nrw", CLOSED)
    for name, move in (("left-out", "skip"), ("later", "next")):
        await app.schedule(name, duly.except_(NINE, "nrw", move), "work")  # type: ignore[arg-type]
    await app.schedule("plain", NINE, "work")
    before = await app.schedules.get("left-out")
    changed = await app.calendars.set("nrw", {**CLOSED, date(2026, 8, 3): "Rain"})
    assert (changed.change, changed.moved) == ("changed", 2)
    after = await app.schedules.get("left-out")
    assert (after.next_at, after.next_id, after.version) == (on(5), before.next_id, 2)
    assert (await app.schedules.get("plain")).version == 1
    assert (await app.get(str(after.next_id))).due_at == on(5)
    back = await app.calendars.set("nrw", CLOSED)
    assert (back.moved, (await app.schedules.get("later")).next_at) == (2, on(3))
    actions = [(each.action, each.subject, each.detail) for each in await app.audit.list(limit=3)]
    assert actions == [
        ("calendar.changed", "nrw", {"dates": 1, "moved": 2}),
        ("schedule.changed", "left-out", {"calendar": "nrw"}),
        ("schedule.changed", "later", {"calendar": "nrw"}),
    ]


async def test_a_label_alone_moves_nothing(app: App) -> None:
    record_payloads(app)
    await app.calendars.set("nrw", CLOSED)
    await app.schedule("daily", duly.except_(NINE, "nrw"), "work")
    changed = await app.calendars.set("nrw", {date(2026, 8, 4): "Fair"})
    assert (changed.change, changed.moved) == ("changed", 0)
    assert (await app.schedules.get("daily")).version == 1


async def test_a_planner_that_has_read_the_old_days_does_not_use_them(app: App) -> None:
    record_payloads(app)
    await app.calendars.set("nrw", CLOSED)
    await app.schedule("daily", duly.except_(NINE, "nrw"), "work")
    (read,) = await app.store.plans.ready(on(3), 10, [], None)
    await app.calendars.set("nrw", {**CLOSED, date(2026, 8, 20): ""})
    (again,) = await app.store.plans.ready(on(3), 10, [], None)
    assert again.version > read.version


async def test_what_is_due_stays_due_when_the_calendar_closes_its_day(
    app: App, clock: VirtualClock
) -> None:
    seen = record_payloads(app)
    await app.calendars.set("nrw", CLOSED)
    await app.schedule("daily", duly.except_(NINE, "nrw"), "work")
    clock.advance(on(3, 10) - START)
    await app.calendars.set("nrw", {**CLOSED, date(2026, 8, 3): "Rain"})
    assert await run_until_idle(app) == 1
    assert len(seen) == 1
    assert (await app.schedules.get("daily")).next_at == on(5)


@pytest.mark.parametrize(
    ("move", "before", "at", "after"),
    [
        # Saturday the 8th came on Friday already; then Saturday is opened.
        ("previous", ["saturday", "sunday"], on(7, 12), ["sunday"]),
        # Saturday the 8th came on Saturday already; then Saturday is closed.
        ("next", ["sunday"], on(8, 12), ["saturday", "sunday"]),
    ],
)
async def test_an_edit_of_the_calendar_repeats_nothing(
    app: App, clock: VirtualClock, move: Any, before: list[str], at: datetime, after: list[str]
) -> None:
    seen = record_payloads(app)
    await app.calendars.set("nrw", weekend=before)
    await app.schedule("eighth", duly.except_(duly.cron("0 9 8 * *"), "nrw", move), "work")
    clock.advance(at - START)
    await run_until_idle(app)
    assert len(seen) == 1
    await app.calendars.set("nrw", weekend=after)
    assert (await app.schedules.get("eighth")).next_at == datetime(2026, 9, 8, 9, tzinfo=UTC)
    await run_until_idle(app, within=7 * DAY)
    assert len(seen) == 1


async def test_a_year_is_neither_lost_nor_repeated_around_new_year(
    app: App, clock: VirtualClock
) -> None:
    record_payloads(app)
    # 1 January 2027 is a Friday, 2 January a Saturday.
    await app.calendars.set("nrw", {date(2027, 1, 1): "New year"})
    rules = {
        "early": duly.except_(duly.yearly(1, 1), "nrw", "previous"),
        "late": duly.except_(duly.yearly(12, 31), "nrw", "next"),
        "second": duly.except_(duly.yearly(1, 2), "nrw", "next"),
    }
    for name, rule in rules.items():
        await app.schedule(name, rule, "work")
    await run_until_idle(app, within=datetime(2027, 1, 10, tzinfo=UTC) - START)
    # Only the next one is stored: those of 2028 are Saturday and Sunday, and 31.12.2027 is open.
    assert await due_moments(app, "early") == [
        datetime(2026, 12, 31, 9, tzinfo=UTC),
        datetime(2027, 12, 31, 9, tzinfo=UTC),
    ]
    assert await due_moments(app, "late") == [
        datetime(2026, 12, 31, 9, tzinfo=UTC),
        datetime(2027, 12, 31, 9, tzinfo=UTC),
    ]
    assert await due_moments(app, "second") == [
        datetime(2027, 1, 4, 9, tzinfo=UTC),
        datetime(2028, 1, 3, 9, tzinfo=UTC),
    ]
    # An edit afterwards neither repeats 2027 nor loses 2028.
    await app.calendars.set("nrw", weekend=["sunday"])
    assert [(await app.schedules.get(name)).next_at for name in rules] == [
        datetime(2028, 1, 1, 9, tzinfo=UTC),
        datetime(2027, 12, 31, 9, tzinfo=UTC),
        datetime(2028, 1, 3, 9, tzinfo=UTC),
    ]


async def test_a_year_whose_business_day_an_edit_puts_into_the_past_is_due_now(
    app: App, clock: VirtualClock
) -> None:
    seen = record_payloads(app)
    await app.calendars.set("nrw")
    # Saturday, 8 August 2026 is moved to Monday.
    await app.schedule("birthday", duly.except_(duly.yearly(8, 8), "nrw", "next"), "work")
    clock.advance(on(9) - START)
    await app.calendars.set("nrw", weekend=["sunday"])
    assert await run_until_idle(app) == 1
    assert len(seen) == 1
    assert (await app.schedules.get("birthday")).next_at == datetime(2027, 8, 9, 9, tzinfo=UTC)


async def test_a_calendar_in_use_is_not_removed(app: App) -> None:
    record_payloads(app)
    await app.calendars.set("nrw", CLOSED)
    await app.schedule("daily", duly.except_(NINE, "nrw"), "work")
    with pytest.raises(Conflict, match="used by daily; change these schedules first"):
        await app.calendars.remove("nrw")
    await app.schedule("daily", NINE, "work")
    await app.calendars.remove("nrw")


async def test_a_rule_of_which_nothing_is_left_is_refused(app: App) -> None:
    record_payloads(app)
    await app.calendars.set("nrw", CLOSED)
    saturdays = duly.except_(duly.cron("0 9 * * SAT"), "nrw")
    with pytest.raises(InvalidInput, match="calendar: calendar 'nrw' leaves no moment"):
        await app.schedule("never", saturdays, "work")
    with pytest.raises(InvalidInput, match="calendar: no calendar 'bavaria'"):
        await app.schedule("never", duly.except_(NINE, "bavaria"), "work")
    with pytest.raises(InvalidInput, match="calendar 'nrw' leaves no moment"):
        await app.schedules.create_many([("never", saturdays, "work", None, {})])
    assert await app.schedules.list() == []


@pytest.mark.parametrize("paused", [False, True])
async def test_an_edit_that_leaves_nothing_of_a_schedule_is_refused(app: App, paused: bool) -> None:
    record_payloads(app)
    await app.calendars.set("nrw", CLOSED)
    await app.schedule("mondays", duly.except_(duly.cron("0 9 * * MON"), "nrw"), "work")
    if paused:
        await app.schedules.pause("mondays")
    with pytest.raises(InvalidInput, match="schedule 'mondays': calendar 'nrw' leaves no moment"):
        await app.calendars.set("nrw", weekend=["monday"])
    assert (await app.calendars.get("nrw")).version == 1


async def test_a_paused_schedule_resumes_by_the_new_days(app: App) -> None:
    record_payloads(app)
    await app.calendars.set("nrw", CLOSED)
    await app.schedule("daily", duly.except_(NINE, "nrw"), "work")
    await app.schedules.pause("daily")
    await app.calendars.set("nrw", {**CLOSED, date(2026, 8, 3): ""})
    assert (await app.schedules.resume("daily")).next_at == on(5)


async def test_many_schedules_change_together_or_not_at_all(app: App) -> None:
    record_payloads(app)
    await app.calendars.set("nrw", CLOSED)
    rule = duly.except_(NINE, "nrw")
    await app.schedules.create_many([(f"s{n:04}", rule, "work", None, {}) for n in range(600)])
    mondays = duly.except_(duly.cron("0 9 * * MON"), "nrw")
    await app.schedule("z", mondays, "work")
    with pytest.raises(InvalidInput, match="schedule 'z'"):
        await app.calendars.set("nrw", weekend=["monday"])
    assert (await app.schedules.get("s0000")).next_at == on(3)
    assert (await app.calendars.set("nrw", {date(2026, 8, 3): ""})).moved == 601
    assert (await app.schedules.get("s0599")).next_at == on(4)
    assert (await app.calendars.list())[0].schedules == 601


@pytest.mark.parametrize("way", ["declare", "create_many", "transaction"])
async def test_a_schedule_is_computed_again_if_its_calendar_changes_meanwhile(
    app: App, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    record_payloads(app)
    await app.calendars.set("nrw", CLOSED)
    rule, get = duly.except_(NINE, "nrw"), app.store.calendars.get
    edits = [{date(2026, 8, 3): ""}]

    async def edited_after(name: str) -> Any:
        found = await get(name)
        if edits:
            await app.calendars.set(name, edits.pop())
        return found

    monkeypatch.setattr(app.store.calendars, "get", edited_after)
    if way == "declare":
        await app.schedule("daily", rule, "work")
    elif way == "create_many":
        await app.schedules.create_many([("daily", rule, "work", None, {})])
    else:
        # On SQLite nobody else can write during a transaction.
        edits = edits if not app.store.single_owner else []
        async with app.transaction() as transaction:
            await app.schedule("daily", rule, "work", connection=transaction)
    expected = on(3) if way == "transaction" and app.store.single_owner else on(4)
    assert (await app.schedules.get("daily")).next_at == expected


async def test_schedules_and_calendars_that_change_at_once_agree(app: App) -> None:
    record_payloads(app)
    await app.calendars.set("nrw", CLOSED)

    async def edit() -> None:
        for day in (3, 4, 3, 4, 3):
            await app.calendars.set("nrw", {date(2026, 8, day): ""})

    async def declare(name: str) -> None:
        await app.schedule(name, duly.except_(NINE, "nrw"), "work")

    await asyncio.gather(edit(), *(declare(f"s{number}") for number in range(20)))
    found = await app.schedules.list(limit=50)
    assert {each.next_at for each in found} == {on(4)}


async def test_a_preview_says_why_moments_are_missing_or_moved(app: App) -> None:
    record_payloads(app)
    await app.calendars.set("nrw", CLOSED)
    await app.schedule("daily", duly.except_(NINE, "nrw"), "work")
    first, second, _ = await app.schedules.preview("daily", 3)
    assert [(each.local.day, each.reason) for each in first.left_out] == [
        (1, "weekend (calendar nrw)"),
        (2, "weekend (calendar nrw)"),
    ]
    assert [(each.at, each.reason) for each in second.left_out] == [
        (on(4), "Town fair (calendar nrw)")
    ]
    explained = await app.schedules.explain(
        duly.except_(duly.cron("0 9 1 * *"), "nrw", "previous"), 3
    )
    assert [(each.at, each.moved_from, each.reason) for each in explained.next] == [
        (datetime(2026, 9, 1, 9, tzinfo=UTC), None, None),
        (datetime(2026, 10, 1, 9, tzinfo=UTC), None, None),
        (
            datetime(2026, 10, 30, 9, tzinfo=UTC),
            datetime(2026, 11, 1, 9, tzinfo=UTC),
            "weekend (calendar nrw)",
        ),
    ]
    assert explained.rule.endswith("moved to the previous business day of nrw")
    merged = await app.schedules.explain(duly.except_(NINE, "nrw", "next"), 1)
    assert [(each.local.day, each.reason) for each in merged.next[0].left_out] == [
        (1, "comes on 2026-08-03: weekend (calendar nrw)"),
        (2, "comes on 2026-08-03: weekend (calendar nrw)"),
    ]


async def test_a_rule_with_the_calendar_itself_can_be_previewed(app: App) -> None:
    calendar = await app.calendars.set("nrw", CLOSED)
    rule = duly.except_(NINE, calendar)
    assert rule.preview(2, after=START) == [on(3), on(5)]


async def test_a_file_replaces_the_dates_and_keeps_the_weekend(app: App) -> None:
    file = (
        "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20260804\r\nSUMMARY:Fair\r\n"
        "END:VEVENT\r\nEND:VCALENDAR\r\n"
    )
    created = await app.calendars.import_ics("nrw", file)
    assert (created.change, created.closed) == ("created", {date(2026, 8, 4): "Fair"})
    assert created.weekend == ("saturday", "sunday")
    await app.calendars.set("nrw", CLOSED, weekend=["friday"])
    changed = await app.calendars.import_ics("nrw", file.encode())
    assert (changed.change, changed.weekend) == ("changed", ("friday",))
    with pytest.raises(InvalidInput, match="ics: line 1"):
        await app.calendars.import_ics("nrw", b"nothing")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"weekend": []}, "closed"),
        ({"weekend": ["someday"]}, "weekend"),
        ({"weekend": "friday"}, "weekend"),
        ({"closed": ["2026-08-04"]}, "closed"),
        ({"closed": {date(2026, 8, 4): 7}}, "closed"),
        ({"closed": [datetime(2026, 8, 4, tzinfo=UTC)]}, "closed"),
    ],
)
async def test_bad_input_is_refused(small_app: App, given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await small_app.calendars.set("nrw", **given)
    assert refused.value.field == field
    with pytest.raises(InvalidInput, match="is not a name"):
        await small_app.calendars.set("", CLOSED)


def test_calendars_have_methods_that_block(sqlite_url: str) -> None:
    app = App(sqlite_url)
    app.sync.calendars.set("nrw", CLOSED)
    assert app.sync.calendars.get("nrw").closed == CLOSED
    assert [each.name for each in app.sync.calendars.list()] == ["nrw"]
    app.sync.calendars.remove("nrw")
    app.sync.close()
