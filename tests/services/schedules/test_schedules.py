"""Schedules as users write them: declared, decorated, paused, triggered, backfilled."""

from datetime import datetime, timedelta
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import START, record_payloads

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
HOURLY = duly.cron("0 * * * *")
EIGHT = START.replace(hour=8, minute=0)


class Recorder:
    """What a handler gets about its schedule."""

    def __init__(self, app: App, name: str = "work") -> None:
        self.seen: list[tuple[Any, ...]] = []
        app.handler(name)(self.handle)

    async def handle(self, delivery: Delivery[Any]) -> None:
        self.seen.append(
            (
                delivery.payload,
                delivery.schedule,
                delivery.scheduled_for,
                delivery.merged,
                delivery.late_by,
            )
        )


@pytest.mark.requirement("C2")
async def test_a_schedule_delivers_its_payload_at_every_moment_of_its_rule(app: App) -> None:
    recorder = Recorder(app)
    declared = await app.schedule("hourly", HOURLY, "work", {"team": 7})
    assert (declared.change, declared.next_at) == ("created", EIGHT)
    assert await run_until_idle(app) == 0
    assert await run_until_idle(app, within=2 * HOUR) == 2
    assert recorder.seen == [
        ({"team": 7}, "hourly", EIGHT, 0, timedelta()),
        ({"team": 7}, "hourly", EIGHT + HOUR, 0, timedelta()),
    ]
    second = await app.schedule("hourly", HOURLY, "work", {"team": 7})
    assert (second.change, second.version) == ("unchanged", 1)


@pytest.mark.requirement("L6")
async def test_a_schedule_of_several_rules_delivers_at_each_moment_once(
    app: App, clock: VirtualClock
) -> None:
    recorder = Recorder(app)
    several = duly.any_of(HOURLY, duly.cron("30 9 * * *"), duly.every("2h"))
    await app.schedule("several", several, "work")
    assert await run_until_idle(app, within=EIGHT + 2 * HOUR - START) == 4
    assert [each[2] for each in recorder.seen] == [
        EIGHT + passed for passed in (0 * HOUR, HOUR, 1.5 * HOUR, 2 * HOUR)
    ]
    assert (await app.schedules.get("several")).rule.any_of is not None
    clock.advance(DAY)
    assert await run_until_idle(app) == 1
    # An hourly rule has 24 occurrences in a day, and this one has half past nine too.
    assert recorder.seen[-1][3] == 24


@pytest.mark.requirement("C3")
async def test_a_handler_gets_its_lateness_and_the_number_of_merged_occurrences(
    app: App, clock: VirtualClock
) -> None:
    recorder = Recorder(app)
    await app.schedule("hourly", HOURLY, "work")
    clock.advance(EIGHT + 5 * HOUR + 10 * MINUTE - START)
    assert await run_until_idle(app) == 1
    (((payload, *rest)),) = recorder.seen
    assert rest == ["hourly", EIGHT + 5 * HOUR, 5, 10 * MINUTE]
    assert payload == {
        "schedule": "hourly",
        "scheduled_for": "2026-08-01T13:00:00Z",
        "merged": 5,
        "overlap": "allow",
    }
    (done,) = await app.list(state="completed")
    assert (done.schedule, done.scheduled_for, done.merged) == ("hourly", EIGHT + 5 * HOUR, 5)
    assert done.payload == payload


async def test_a_delivery_without_a_schedule_has_none(small_app: App) -> None:
    recorder = Recorder(small_app)
    await small_app.deliver("work", "plain")
    await run_until_idle(small_app)
    assert recorder.seen == [("plain", None, None, 0, timedelta())]


@pytest.mark.requirement("C3")
async def test_an_occurrence_is_cancelled_when_it_expires(app: App, clock: VirtualClock) -> None:
    seen = record_payloads(app)
    await app.schedule("birthday", duly.yearly(8, 1, "08:00"), "work", expires_after="1h")
    clock.advance(2 * HOUR)
    assert await run_until_idle(app) == 0
    (ended,) = await app.list(state="cancelled")
    assert (ended.reason, seen) == ("expired", [])
    (following,) = await app.list(state="pending")
    assert following.due_at == EIGHT.replace(year=2027)
    assert following.expires_at == EIGHT.replace(year=2027) + HOUR


def decorated_app(url: str, clock: VirtualClock, form: str, seen: list[Any]) -> App:
    app = App(url, clock=clock, environment={})

    async def sync(delivery: Delivery[Any]) -> None:
        seen.append((delivery.target, delivery.schedule))

    if form == "above":
        app.schedule(HOURLY, catch_up="all")(app.handler("synced")(sync))
    elif form == "below":
        app.handler("synced")(app.schedule(HOURLY, catch_up="all")(sync))
    else:
        app.schedule(HOURLY, catch_up="all")(sync)
    return app


@pytest.mark.requirement("C2")
@pytest.mark.parametrize(
    ("form", "target"), [("above", "synced"), ("below", "synced"), ("bare", "sync")]
)
async def test_a_decorated_schedule_is_declared_when_the_app_opens(
    database_url: str, clock: VirtualClock, form: str, target: str
) -> None:
    seen: list[Any] = []
    for _ in range(2):
        async with decorated_app(database_url, clock, form, seen) as app:
            schedule = await app.schedules.get(target)
            assert (schedule.version, schedule.target) == (1, target)
            assert schedule.catch_up == "all"
    async with decorated_app(database_url, clock, form, seen) as app:
        clock.advance(2 * HOUR)
        assert await run_until_idle(app) == 2
    assert seen == [(target, target)] * 2


async def test_a_decorator_can_name_the_schedule_and_be_used_twice(
    sqlite_url: str, clock: VirtualClock
) -> None:
    app = App(sqlite_url, clock=clock, environment={})

    @app.schedule(duly.every("15m"), name="often", payload={"how": "often"})
    @app.schedule(HOURLY, name="seldom")
    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None: ...

    async with app:
        assert [each.name for each in await app.schedules.list()] == ["often", "seldom"]
        often = await app.schedules.get("often")
        assert (often.target, bytes(often.payload_json)) == ("work", b'{"how":"often"}')


async def test_two_decorators_of_one_name_are_refused_and_nothing_is_stored(
    sqlite_url: str, clock: VirtualClock
) -> None:
    app = App(sqlite_url, clock=clock, environment={})

    @app.schedule(duly.every("15m"))
    @app.schedule(HOURLY)
    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None: ...

    with pytest.raises(duly.InvalidInput, match="'work' is declared twice") as refused:
        await app.open()
    assert refused.value.field == "name"
    async with App(sqlite_url, clock=clock, environment={}) as other:
        assert await other.schedules.list() == []


async def test_a_changed_decorator_changes_the_schedule_at_the_next_start(
    app: App, database_url: str, clock: VirtualClock
) -> None:
    async with decorated_app(database_url, clock, "bare", []):
        pass
    changed = App(database_url, clock=clock, environment={})

    @changed.schedule(duly.cron("30 * * * *"))
    async def sync(delivery: Delivery[Any]) -> None: ...

    async with changed:
        schedule = await changed.schedules.get("sync")
        assert (schedule.version, schedule.catch_up) == (2, "latest")
        assert schedule.next_at == EIGHT + 30 * MINUTE
        assert [each.due_at for each in await changed.list()] == [EIGHT + 30 * MINUTE]


@pytest.mark.requirement("C4")
async def test_a_pause_causes_no_burst_unless_requested(app: App, clock: VirtualClock) -> None:
    seen = record_payloads(app)
    for name in ("quiet", "loud"):
        await app.schedule(name, HOURLY, "work", name, catch_up="all")
        paused = await app.schedules.pause(name, "maintenance")
        assert (paused.state, paused.pause_reason) == ("paused", "maintenance")
    assert await run_until_idle(app, within=5 * HOUR) == 0
    clock.advance(5 * HOUR)
    await app.schedules.resume("quiet")
    await app.schedules.resume("loud", from_pause=True)
    assert await run_until_idle(app) == 5
    assert seen == ["loud"] * 5


@pytest.mark.requirement("C4")
async def test_a_trigger_runs_now_even_when_paused_and_does_not_change_the_plan(app: App) -> None:
    recorder = Recorder(app)
    await app.schedule("hourly", HOURLY, "work", max_runs=1)
    id = await app.schedules.trigger("hourly")
    assert await run_until_idle(app) == 1
    assert recorder.seen[0][1:] == ("hourly", START, 0, timedelta())
    assert (await app.get(id)).state == "completed"
    await app.schedules.pause("hourly")
    await app.schedules.trigger("hourly")
    assert await run_until_idle(app) == 1
    await app.schedules.resume("hourly")
    assert await run_until_idle(app, within=DAY) == 1
    assert recorder.seen[2][2] == EIGHT


async def backfilled(app: App, start: datetime, end: datetime) -> list[int]:
    return [each async for each in app.schedules.backfill("hourly", start, end)]


@pytest.mark.requirement("C1", "C4")
async def test_a_backfill_makes_each_missing_occurrence_once(app: App, clock: VirtualClock) -> None:
    recorder = Recorder(app)
    await app.schedule("hourly", HOURLY, "work")
    clock.advance(3 * HOUR)
    assert await run_until_idle(app) == 1
    last_week = EIGHT - 7 * DAY
    assert await backfilled(app, last_week, EIGHT + 2 * HOUR) == [170]
    assert await backfilled(app, last_week, EIGHT + 2 * HOUR) == [0]
    assert await run_until_idle(app) == 170
    assert await backfilled(app, last_week, EIGHT + 2 * HOUR) == [0]
    moments = [each[2] for each in recorder.seen]
    assert sorted(moments) == [last_week + n * HOUR for n in range(171)]
    assert (await app.schedules.get("hourly")).next_at == EIGHT + 3 * HOUR


@pytest.mark.requirement("C4")
async def test_a_backfill_runs_in_slices_between_start_and_end(
    small_app: App, clock: VirtualClock
) -> None:
    record_payloads(small_app)
    minutely = duly.every("1m")
    await small_app.schedule(
        "hourly", minutely, "work", start=START - 600 * MINUTE, end=START - 10 * MINUTE
    )
    assert await backfilled(small_app, START - 2 * DAY, START) == [500, 91]
    assert await backfilled(small_app, START - 2 * DAY, START - DAY) == []
    assert await backfilled(small_app, START, START) == []


@pytest.mark.requirement("C4")
async def test_a_backfill_of_the_future_or_of_too_much_is_refused(
    small_app: App, clock: VirtualClock
) -> None:
    record_payloads(small_app)
    await small_app.schedule("hourly", duly.every("1s"), "work")
    for start, end, field in [
        (START, START + MINUTE, "end"),
        (START, START - MINUTE, "end"),
        (START - 2 * DAY, START, "start"),
        (START.replace(tzinfo=None), START, "start"),
        (START, "now", "end"),
    ]:
        with pytest.raises(duly.InvalidInput) as refused:
            await backfilled(small_app, start, end)  # type: ignore[arg-type]
        assert refused.value.field == field
    with pytest.raises(duly.NotFound):
        [each async for each in small_app.schedules.backfill("no such", START, START)]
    assert len(await small_app.list()) == 1


async def preview(app: App, n: int = 5) -> list[datetime]:
    return [each.at for each in await app.schedules.preview("hourly", n)]


@pytest.mark.requirement("C4")
async def test_a_preview_shows_only_future_occurrences(app: App) -> None:
    record_payloads(app)
    await app.schedule("hourly", HOURLY, "work")
    assert await preview(app, 3) == [EIGHT + n * HOUR for n in range(3)]
    assert len(await app.schedules.preview("hourly")) == 5
    await app.schedule("hourly", HOURLY, "work", start=EIGHT + DAY, end=EIGHT + DAY + HOUR)
    assert await preview(app) == [EIGHT + DAY, EIGHT + DAY + HOUR]
    await app.schedule("hourly", HOURLY, "work", max_runs=2)
    assert await preview(app) == [EIGHT, EIGHT + HOUR]
    before = await app.list()
    await app.schedules.preview("hourly", 100)
    assert await app.list() == before
    for bad in (-1, 10_001, True, "5"):
        with pytest.raises(duly.InvalidInput) as refused:
            await app.schedules.preview("hourly", bad)  # type: ignore[arg-type]
        assert refused.value.field == "n"


async def test_a_removed_schedule_makes_no_occurrences(app: App, clock: VirtualClock) -> None:
    seen = record_payloads(app)
    await app.schedule("hourly", HOURLY, "work")
    await app.schedules.remove("hourly")
    clock.advance(DAY)
    assert await run_until_idle(app) == 0
    assert (seen, [each.state for each in await app.list()]) == ([], ["cancelled"])
    with pytest.raises(duly.NotFound, match="duly schedules list"):
        await app.schedules.get("hourly")


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("target", {"target": "unheard-of"}, r"Register it with @app.handler\('unheard-of'\)"),
    ("target", {"target": "a b"}, "letters, digits"),
    ("payload", {"payload": object()}, "cannot be written as JSON"),
    ("rule", {"rule": "0 * * * *"}, r"duly\.cron"),
    ("name", {"name": ""}, "give 1 to"),
    ("name", {"name": "a\nb"}, "cannot be printed"),
    ("name", {"name": "x" * 256}, "give 1 to 255"),
    ("catch_up", {"catch_up": "some"}, "none of all, latest, skip"),
    ("window", {"window": "long"}, "no duration"),
    ("cap", {"cap": 0}, "whole number"),
    ("overlap", {"overlap": "maybe"}, "none of allow, skip, queue"),
    ("start", {"start": "tomorrow"}, "not a datetime"),
    ("end", {"end": START.replace(tzinfo=None)}, "no time zone"),
    ("end", {"start": START, "end": START - MINUTE}, "before start"),
    ("max_runs", {"max_runs": -1}, "whole number"),
    ("jitter", {"jitter": "30d"}, "more than 7 days"),
    ("expires_after", {"expires_after": -1}, "from 0 seconds"),
    ("priority", {"priority": 99}, "from 1 to 9"),
    ("overlap", {"stream": "team 7", "overlap": "skip"}, "one at a time by itself"),
    ("tags", {"tags": "red"}, "give a list"),
    ("catchup", {"catchup": "all"}, "no such option; there are catch_up"),
]


@pytest.mark.requirement("C3", "C4")
@pytest.mark.parametrize(("field", "changes", "problem"), BAD)
async def test_bad_input_is_refused_with_its_field_and_nothing_is_stored(
    small_app: App, field: str, changes: dict[str, Any], problem: str
) -> None:
    record_payloads(small_app)
    given = {"name": "hourly", "rule": HOURLY, "target": "work"} | changes
    with pytest.raises(duly.InvalidInput, match=problem) as refused:
        await small_app.schedule(
            given.pop("name"),
            given.pop("rule"),
            given.pop("target"),
            given.pop("payload", None),
            **given,
        )
    assert refused.value.field == field
    assert (await small_app.schedules.list(), await small_app.list()) == ([], [])


@pytest.mark.requirement("C2")
@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: duly.cron("61 * * * *"), "minute"),
        (lambda: duly.cron("0 0 31 2 *"), "expression"),
        (lambda: duly.cron("0 9 * * *", tz="Europe/Olso"), "tz"),
        (lambda: duly.every(0), "interval"),
        (lambda: duly.every("-1s"), "interval"),
        (lambda: duly.yearly(2, 31), "day"),
        (lambda: duly.yearly(2, 29, feb29="leap"), "feb29"),  # type: ignore[arg-type]
        (lambda: duly.at("2026-11-16T09:00"), "tz"),
        (lambda: duly.at("tomorrow"), "moment"),
    ],
)
def test_an_invalid_rule_is_refused_when_it_is_made(make: Any, field: str) -> None:
    with pytest.raises(duly.InvalidInput) as refused:
        make()
    assert refused.value.field == field


async def test_an_unknown_option_is_refused_where_it_is_written(
    small_app: App,
) -> None:
    with pytest.raises(duly.InvalidInput, match="no such option"):
        small_app.schedule(HOURLY, catchup="all")


async def test_the_audit_trail_shows_who_did_what(small_app: App) -> None:
    record_payloads(small_app)
    await small_app.schedule("hourly", HOURLY, "work")
    await small_app.schedule("hourly", HOURLY, "work", cap=5)
    await small_app.schedules.trigger("hourly")
    entries = await small_app.audit.list()
    assert [(each.actor, each.action) for each in entries] == [
        ("python", "schedule.run"),
        ("python", "schedule.changed"),
        ("python", "schedule.created"),
    ]
    assert len(await small_app.audit.list(limit=1)) == 1
    with pytest.raises(duly.InvalidInput, match="limit"):
        await small_app.audit.list(limit=0)
