"""Schedules in the store: created once, and changed completely or not at all."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from duly.domain.deliveries.outcomes import Verdict
from duly.domain.schedules.planning import Planned
from duly.domain.schedules.record import record_of
from duly.domain.time.rules import Rule, cron, every, yearly
from duly.domain.time.zones import fingerprint, zone_data_version
from duly.engine.maintenance import repair_schedules
from duly.errors import NotFound, UnreadableRule
from duly.failpoints import FailpointRaised, arm
from duly.records import retry_plan
from duly.records.schedule import DeclaredSchedule
from duly.stores.postgres.database import Postgres
from duly.system import SystemChance
from tests.stores.schedule_probe import ScheduleProbe, sql_moment
from tests.stores.store_probe import START, StoreProbe, number_id, open_probe, settlement

HOURLY = cron("0 * * * *")
ONE = datetime(2026, 3, 1, 13, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NEWER_RULE = '{"kind":"lunar","phase":"full"}'


@pytest.fixture
def schedules(probe: StoreProbe) -> ScheduleProbe:
    return ScheduleProbe(probe)


@pytest.fixture
def other_schedules(other_process: StoreProbe) -> ScheduleProbe:
    """The schedules, opened by another process."""
    return ScheduleProbe(other_process)


async def declare_in_full(schedules: ScheduleProbe, **changes: Any) -> Any:
    options: dict[str, Any] = {
        "catch_up": "all",
        "window": "6h",
        "cap": 12,
        "overlap": "queue",
        "start": START + timedelta(seconds=1),
        "end": START + 40 * DAY,
        "max_runs": 3,
        "jitter": 2.5,
        "expires_after": "90m",
        "retry": retry_plan.no_retry,
        "priority": 8,
        "tags": ["red", "green"],
    }
    rule = cron("0 9 * * *", tz="Europe/Oslo")
    return await schedules.declare("daily", rule, {"team": 7}, **options | changes)


@pytest.mark.requirement("C2", "C3", "C4")
async def test_every_field_of_a_declaration_is_stored(schedules: ScheduleProbe) -> None:
    declared = await declare_in_full(schedules)
    assert declared.change == "created"
    schedule = await schedules.get()
    assert record_of(schedule, DeclaredSchedule, change="created") == declared
    timing, contents = schedule.timing, schedule.contents
    assert timing.rule == cron("0 9 * * *", tz="Europe/Oslo")
    assert (timing.catch_up, timing.window, timing.cap) == ("all", 21_600.0, 12)
    assert (timing.overlap, timing.max_runs, timing.jitter) == ("queue", 3, 2.5)
    assert timing.starts_at == START + timedelta(seconds=1)
    assert timing.ends_at == START + 40 * DAY
    assert (contents.target, contents.payload, contents.priority) == ("mail", b'{"team":7}', 8)
    assert (contents.stream, contents.expires_after) == (None, 5400.0)
    assert (contents.retry, contents.tags) == ('{"type":"none"}', ("red", "green"))
    assert (schedule.version, schedule.state, schedule.paused_at) == (1, "active", None)
    assert schedule.created_at == schedule.updated_at == START
    row = await schedules.row()
    assert json.loads(row["rule"])["kind"] == "cron"
    assert row["zone"] == "Europe/Oslo"
    assert (row["zone_hash"], row["zone_version"]) == (
        fingerprint("Europe/Oslo"),
        zone_data_version(),
    )


@pytest.mark.requirement("C1", "C4")
async def test_the_next_occurrence_is_an_ordinary_pending_delivery(
    schedules: ScheduleProbe,
) -> None:
    await declare_in_full(schedules)
    id = await schedules.pending()
    nine_in_oslo = datetime(2026, 3, 2, 8, tzinfo=UTC)
    ledger = await schedules.probe.ledger(id)
    due = ledger["due_at"]
    assert nine_in_oslo < due < nine_in_oslo + timedelta(seconds=2.5)
    assert ledger | {"lane": None} == {
        "id": id,
        "lane": None,
        "target": await schedules.probe.target(),
        "priority": 8,
        "attempt": 0,
        "state": "pending",
        "namespace": "default",
        "stream": None,
        "position": None,
        "on_failure": None,
        "key": None,
        "address": None,
        "schedule": (await schedules.get()).id,
        "occurrence": "2026-03-02T08:00:00Z",
        "occasion": '{"schedule":"daily","scheduled_for":"2026-03-02T08:00:00Z",'
        '"merged":0,"overlap":"queue"}',
        "due_at": due,
        "accepted_at": START,
        "expires_at": due + timedelta(minutes=90),
        "started_at": None,
        "finished_at": None,
        "dead_at": None,
        "fingerprint": None,
        "crashes": None,
        "disposition": None,
        "revive_at": None,
        "revivals": None,
        "turn": None,
        "batch": None,
        "unique_key": None,
        "replaced": None,
        "replaced_at": None,
        "generation": None,
        "token": None,
        "tags": ["red", "green"],
        "retry": '{"type":"none"}',
        "reason": None,
        "error": None,
        "payload": b'{"team":7}',
    }
    lane = await schedules.probe.lane(id)
    assert lane is not None
    assert (lane["due_at"], lane["priority"]) == (due, 8)
    assert lane["schedule"] == (await schedules.get()).id
    delivery = await schedules.store.deliveries.get(id)
    assert (delivery.schedule, delivery.scheduled_for, delivery.merged) == (
        "daily",
        nine_in_oslo,
        0,
    )


async def test_lanes_of_schedules_that_may_overlap_have_no_schedule(
    schedules: ScheduleProbe,
) -> None:
    await schedules.declare("daily", HOURLY)
    lane = await schedules.probe.lane(await schedules.pending())
    assert lane is not None
    assert lane["schedule"] is None


@pytest.mark.requirement("C1")
async def test_declaring_the_same_schedule_twice_changes_nothing(schedules: ScheduleProbe) -> None:
    await declare_in_full(schedules)
    before = await schedules.everything()
    schedules.probe.clock.advance(60)
    second = await declare_in_full(schedules)
    assert (second.change, second.version) == ("unchanged", 1)
    assert second.next_at == datetime(2026, 3, 2, 8, tzinfo=UTC)
    assert await schedules.everything() == before


@pytest.mark.requirement("C1")
async def test_a_change_applies_to_the_pending_delivery(schedules: ScheduleProbe) -> None:
    await schedules.declare("daily", HOURLY, [1], tags=["red"], expires_after=60)
    id = await schedules.pending()
    schedules.probe.clock.advance(60)
    declared = await schedules.declare(
        "daily", cron("30 * * * *"), [2], "sms", tags=["blue"], priority=7, overlap="skip"
    )
    assert (declared.change, declared.version) == ("changed", 2)
    assert declared.updated_at == START + timedelta(seconds=60)
    assert declared.created_at == START
    assert await schedules.probe.count("deliveries") == await schedules.probe.count("agenda") == 1
    ledger, lane = await schedules.probe.ledger(id), await schedules.probe.lane(id)
    half_past = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    assert (ledger["due_at"], ledger["occurrence"]) == (half_past, "2026-03-01T12:30:00Z")
    assert (ledger["payload"], ledger["tags"], ledger["priority"]) == (b"[2]", ["blue"], 7)
    assert (ledger["expires_at"], ledger["target"]) == (None, await schedules.probe.target("sms"))
    assert lane is not None
    assert (lane["due_at"], lane["priority"]) == (half_past, 7)
    assert (lane["target"], lane["schedule"]) == (
        await schedules.probe.target("sms"),
        declared.id,
    )


@pytest.mark.requirement("C1")
async def test_a_claimed_delivery_is_not_changed(schedules: ScheduleProbe) -> None:
    await schedules.declare("daily", HOURLY, [1])
    schedules.probe.clock.advance(HOUR)
    (claimed,) = await schedules.claim()
    before = await schedules.probe.ledger(claimed.id), await schedules.probe.lane(claimed.id)
    await schedules.declare("daily", cron("30 * * * *"), [2])
    assert (
        await schedules.probe.ledger(claimed.id),
        await schedules.probe.lane(claimed.id),
    ) == before
    assert await schedules.occurrences() == ["2026-03-01T13:00:00Z", "2026-03-01T13:30:00Z"]


async def change(schedules: ScheduleProbe) -> None:
    await schedules.declare("daily", cron("30 * * * *"), [2])


async def pause(schedules: ScheduleProbe) -> None:
    await schedules.service.pause("daily", "why")


async def remove(schedules: ScheduleProbe) -> None:
    await schedules.service.remove("daily")


async def create(schedules: ScheduleProbe) -> None:
    await schedules.declare("another", HOURLY, [3])


async def resume(schedules: ScheduleProbe) -> None:
    await schedules.service.resume("paused")


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("action", [create, change, pause, resume, remove])
@pytest.mark.parametrize("place", ["schedule.before", "schedule.middle"])
async def test_a_failure_in_the_middle_leaves_nothing_half_written(
    schedules: ScheduleProbe, action: Any, place: str
) -> None:
    await schedules.declare("daily", HOURLY, [1])
    await schedules.declare("paused", HOURLY)
    await schedules.service.pause("paused")
    before = await schedules.everything()
    arm(f"{place}=raise")
    with pytest.raises(FailpointRaised):
        await action(schedules)
    arm("")
    assert await schedules.everything() == before
    await action(schedules)
    assert await schedules.everything() != before


@pytest.mark.requirement("C1")
async def test_a_declaration_can_be_repeated_after_a_lost_response(
    schedules: ScheduleProbe,
) -> None:
    arm("schedule.after=raise")
    with pytest.raises(FailpointRaised):
        await schedules.declare("daily", HOURLY, [1])
    arm("")
    assert (await schedules.declare("daily", HOURLY, [1])).change == "unchanged"
    assert await schedules.probe.count("deliveries") == 1


@pytest.mark.requirement("C1")
async def test_of_two_concurrent_creators_one_creates_and_the_other_finds_it(
    schedules: ScheduleProbe, other_schedules: ScheduleProbe
) -> None:
    # Long enough for both to read, and find nothing, before either writes.
    arm("schedule.before=sleep:0.2")
    both = await asyncio.gather(
        schedules.declare("daily", HOURLY, [1]), other_schedules.declare("daily", HOURLY, [1])
    )
    assert sorted(each.change for each in both) == ["created", "unchanged"]
    assert len({(each.id, each.version, each.next_id) for each in both}) == 1
    assert await schedules.occurrences() == ["2026-03-01T13:00:00Z"]
    assert len(await schedules.audit()) == 1


@pytest.mark.requirement("C1")
async def test_concurrent_declarations_are_each_applied_completely(
    schedules: ScheduleProbe, other_schedules: ScheduleProbe
) -> None:
    arm("schedule.before=sleep:0.02")
    await asyncio.gather(
        *((schedules, other_schedules)[n % 2].declare("daily", HOURLY, [n]) for n in range(10))
    )
    schedule = await schedules.get()
    assert schedule.version == 10
    ledger = await schedules.probe.ledger(await schedules.pending())
    assert ledger["payload"] == schedule.contents.payload
    assert await schedules.occurrences() == ["2026-03-01T13:00:00Z"]


@pytest.mark.requirement("C1")
async def test_the_store_refuses_an_occurrence_that_exists(schedules: ScheduleProbe) -> None:
    await schedules.declare("daily", HOURLY)
    with pytest.raises(schedules.store.database.refusals):
        await schedules.probe.sql(
            "insert into duly.deliveries (id, target, priority, namespace, schedule, occurrence,"
            " due_at, accepted_at, payload) select "
            f"'{number_id(99)}', target, priority, namespace, schedule, occurrence, due_at,"
            " accepted_at, payload from duly.deliveries"
        )
    duplicate = Planned(number_id(98), "2026-03-01T13:00:00Z", ONE, '{"overlap":"allow"}')
    assert await schedules.store.schedules.add_runs(await schedules.get(), [duplicate], "kim") == 0
    assert await schedules.probe.count("deliveries") == await schedules.probe.count("agenda") == 1


async def test_removing_a_schedule_cancels_its_pending_delivery_and_frees_its_name(
    schedules: ScheduleProbe,
) -> None:
    first = await schedules.declare("daily", HOURLY)
    id = await schedules.pending()
    removed = await schedules.service.remove("daily")
    assert removed.id == first.id
    with pytest.raises(NotFound):
        await schedules.get()
    delivery = await schedules.store.deliveries.get(id)
    assert (delivery.state, delivery.reason, delivery.finished_at) == (
        "cancelled",
        "cancelled",
        START,
    )
    assert [each.outcome for each in await schedules.store.deliveries.history(id)] == ["cancelled"]
    assert await schedules.probe.count("agenda") == await schedules.probe.count("progress") == 0
    second = await schedules.declare("daily", HOURLY)
    assert (second.change, second.id > first.id) == ("created", True)
    assert await schedules.probe.count("agenda") == 1


async def test_removing_a_schedule_keeps_its_running_delivery(schedules: ScheduleProbe) -> None:
    await schedules.declare("daily", HOURLY)
    schedules.probe.clock.advance(HOUR)
    (claimed,) = await schedules.claim()
    await schedules.service.remove("daily")
    assert (await schedules.store.deliveries.get(claimed.id)).state == "processing"


@pytest.mark.requirement("C4")
async def test_a_paused_schedule_has_no_deliveries(schedules: ScheduleProbe) -> None:
    await schedules.declare("daily", HOURLY)
    paused = await schedules.service.pause("daily", "maintenance")
    assert (paused.state, paused.paused_at, paused.pause_reason) == ("paused", START, "maintenance")
    assert await schedules.probe.count("deliveries") == await schedules.probe.count("agenda") == 0
    schedules.probe.clock.advance(DAY)
    await schedules.planner.catch_up()
    assert await schedules.probe.count("deliveries") == 0
    resumed = await schedules.service.resume("daily")
    assert (resumed.state, resumed.paused_at, resumed.pause_reason) == ("active", None, None)
    assert await schedules.occurrences() == ["2026-03-02T13:00:00Z"]


@pytest.mark.requirement("C4")
async def test_pausing_keeps_the_running_delivery_and_does_not_repeat_it(
    schedules: ScheduleProbe,
) -> None:
    await schedules.declare("daily", HOURLY)
    schedules.probe.clock.advance(HOUR)
    (claimed,) = await schedules.claim()
    await schedules.service.pause("daily")
    await schedules.service.resume("daily", from_pause=True)
    assert (await schedules.store.deliveries.get(claimed.id)).state == "processing"
    assert await schedules.occurrences() == ["2026-03-01T13:00:00Z", "2026-03-01T14:00:00Z"]


async def test_a_missing_schedule_is_named_in_the_error(schedules: ScheduleProbe) -> None:
    for operation in (
        schedules.service.get("no such"),
        schedules.service.pause("no such"),
        schedules.service.resume("no such"),
        schedules.service.remove("no such"),
        schedules.service.trigger("no such"),
        schedules.service.preview("no such"),
    ):
        with pytest.raises(NotFound, match="no schedule 'no such'"):
            await operation


async def test_schedules_are_paged_by_their_names(schedules: ScheduleProbe) -> None:
    for name in ("pear", "apple", "fig", "Äpfel"):
        await schedules.declare(name, HOURLY)
    names = [each.name for each in await schedules.service.list()]
    assert sorted(names) == sorted(["pear", "apple", "fig", "Äpfel"])
    paged: list[str] = []
    while page := await schedules.service.list(after=paged[-1] if paged else "", limit=1):
        paged += [each.name for each in page]
    assert paged == names


async def test_namespaces_have_separate_schedules(schedules: ScheduleProbe, store_url: str) -> None:
    others = ScheduleProbe(await open_probe(store_url, schedules.probe.clock, "other"))
    try:
        await schedules.declare("daily", HOURLY)
        assert (await others.declare("daily", every("1m"))).change == "created"
        schedules.probe.clock.advance(DAY)
        await schedules.planner.catch_up()
        assert (await others.get()).progress.runs == 1
        await others.service.remove("daily")
        assert (await schedules.get()).progress.runs == 2
        assert [each.action for each in await others.audit()] == [
            "schedule.removed",
            "schedule.created",
        ]
    finally:
        await others.store.close()


async def test_the_audit_entry_is_written_with_the_change(schedules: ScheduleProbe) -> None:
    await schedules.declare("daily", HOURLY)
    schedules.probe.clock.advance(10)
    await schedules.service.pause("daily", "maintenance")
    schedules.probe.clock.advance(10)
    await schedules.service.resume("daily", from_pause=True)
    entries = await schedules.audit()
    assert [(each.actor, each.action, each.subject, each.detail) for each in entries] == [
        ("kim", "schedule.resumed", "daily", {"from_pause": True}),
        ("kim", "schedule.paused", "daily", {"reason": "maintenance"}),
        ("kim", "schedule.created", "daily", None),
    ]
    assert [each.done_at for each in entries] == [
        START + timedelta(seconds=20),
        START + timedelta(seconds=10),
        START,
    ]
    (older,) = await schedules.store.audit.page(5, before=entries[1].id)
    assert older == entries[2]


async def make_unreadable(schedules: ScheduleProbe, name: str = "lunar", **columns: str) -> None:
    """Change a schedule as a newer version might."""
    changed = columns or {"rule": NEWER_RULE}
    settings = ", ".join(f"{column} = '{value}'" for column, value in changed.items())
    await schedules.probe.sql(f"update duly.schedules set {settings} where name = '{name}'")


@pytest.mark.requirement("C2")
@pytest.mark.parametrize(
    "columns",
    [
        {"rule": NEWER_RULE},
        {"rule": '{"kind":"cron","expression":"0 9 * * *","tz":"Mars/Olympus"}'},
        {"rule": '{"kind":"every","interval":"PT60S","mood":"late"}'},
        {"rule": "{"},
        {"catch_up": "some"},
        {"overlap": "never"},
    ],
)
async def test_a_schedule_of_a_newer_version_is_reported_and_hides_no_other(
    schedules: ScheduleProbe, columns: dict[str, str]
) -> None:
    for name in ("apple", "lunar", "pear"):
        await schedules.declare(name, HOURLY)
    await make_unreadable(schedules, **columns)
    apple, lunar, pear = await schedules.service.list()
    assert (apple.name, pear.name) == ("apple", "pear")
    assert (lunar.name, lunar.state) == ("lunar", "unreadable")
    assert lunar.problem
    with pytest.raises(UnreadableRule):
        await schedules.service.get("lunar")
    before = await schedules.row("lunar")
    with pytest.raises(UnreadableRule):
        await schedules.declare("lunar", every("1m"))
    assert await schedules.row("lunar") == before


@pytest.mark.requirement("C1")
async def test_only_deliveries_that_were_never_held_are_untouched(schedules: ScheduleProbe) -> None:
    """A delivery that was claimed, reclaimed or retried is touched."""
    names = ["claimed", "crashed", "fresh", "released", "retried"]
    for name in names:
        await schedules.declare(name, HOURLY)
    ids = {name: await schedules.pending(name) for name in names}
    schedules.probe.clock.advance(HOUR)
    claimed = {each.id: each for each in await schedules.claim()}
    now = schedules.probe.clock.now()
    await schedules.probe.settle(
        settlement(claimed[ids["retried"]], Verdict.RETRY, now),
        settlement(claimed[ids["crashed"]], Verdict.RECLAIMED, now, crashes=1),
        settlement(claimed[ids["released"]], Verdict.RELEASED, now),
        settlement(claimed[ids["fresh"]], Verdict.DEFERRED, now),
    )
    async with schedules.store.plans.lock_due(now, 10, []) as locked:
        found = await locked.untouched([*ids.values(), None])
    assert found == {ids["fresh"], ids["released"]}


@pytest.mark.requirement("D15")
async def test_the_sweep_restores_an_occurrence_that_was_deleted_by_hand(
    schedules: ScheduleProbe,
) -> None:
    for name in ("apple", "fig", "pear", "paused", "finished"):
        await schedules.declare(name, HOURLY, end=ONE if name == "finished" else None)
    await schedules.service.pause("paused")
    await schedules.probe.sql("delete from duly.deliveries where occurrence is not null")
    await schedules.probe.sql("delete from duly.agenda")
    await schedules.declare("whole", HOURLY)
    repair = partial(repair_schedules, schedules.store.schedules, SystemChance().delivery_id)
    repaired, after = await repair("", 3)
    assert after is not None
    more, after = await repair(after, 10)
    assert (repaired + more, after) == (4, None)
    assert await repair("", 100) == (0, None)
    for name in ("apple", "fig", "pear", "finished", "whole"):
        assert await schedules.occurrences(name) == ["2026-03-01T13:00:00Z"]
        assert (await schedules.get(name)).progress.runs == 1
    assert await schedules.occurrences("paused") == []
    assert await schedules.probe.count("agenda") == 5
    actors = [each.actor for each in await schedules.audit() if each.action == "schedule.mended"]
    assert actors == ["sweeper"] * 4


@pytest.mark.requirement("D15")
async def test_an_unreadable_schedule_does_not_stop_the_sweep(schedules: ScheduleProbe) -> None:
    for name in ("apple", "lunar", "pear"):
        await schedules.declare(name, HOURLY)
    await make_unreadable(schedules)
    await schedules.probe.sql("delete from duly.deliveries")
    await schedules.probe.sql("delete from duly.agenda")
    repair = partial(repair_schedules, schedules.store.schedules, SystemChance().delivery_id)
    assert await repair("", 100) == (2, None)


@pytest.mark.requirement("D15", "C10")
@pytest.mark.parametrize("runs_early", [False, True])
async def test_an_occurrence_that_ended_early_is_not_made_again(
    schedules: ScheduleProbe, runs_early: bool
) -> None:
    """After it was cancelled, or retried early, and pruned, the sweep must not make it again."""
    await schedules.declare("daily", yearly(12, 1))
    id = await schedules.pending()
    if runs_early:
        await schedules.store.deliveries.retry(id)
        (claimed,) = await schedules.claim()
        await schedules.probe.settle(settlement(claimed, Verdict.COMPLETED, START))
    else:
        await schedules.store.deliveries.cancel(id)
    schedules.probe.clock.advance(30 * DAY)
    beginning = "00000000-0000-0000-0000-000000000000"
    assert await schedules.store.maintenance.count_prunable(DAY, DAY, beginning, 100) == (0, None)
    assert await schedules.store.maintenance.prune(DAY, DAY, beginning, 100) == (0, None)
    repair = partial(repair_schedules, schedules.store.schedules, SystemChance().delivery_id)
    assert await repair("", 100) == (0, None)
    schedules.probe.clock.advance(300 * DAY)
    await schedules.planner.catch_up()
    assert await schedules.occurrences() == ["2026", "2027"]
    assert (await schedules.store.maintenance.prune(DAY, DAY, beginning, 100))[0] == 1


async def test_the_zones_in_use_are_listed_with_the_version_of_their_data(
    schedules: ScheduleProbe,
) -> None:
    rules: dict[str, Rule] = {
        "apple": cron("0 9 * * *", tz="Europe/Oslo"),
        "fig": yearly(1, 1, tz="Asia/Tokyo"),
        "kiwi": every("1h"),
        "pear": yearly(2, 2, tz="Asia/Tokyo"),
    }
    for name, rule in rules.items():
        await schedules.declare(name, rule)
    uses = {each.zone: each for each in await schedules.store.schedules.zones()}
    assert set(uses) == {"Europe/Oslo", "Asia/Tokyo"}
    tokyo = uses["Asia/Tokyo"]
    assert (tokyo.hash, tokyo.version) == (fingerprint("Asia/Tokyo"), zone_data_version())
    assert await schedules.store.schedules.of_zone(tokyo, "", 10) == ["fig", "pear"]
    assert await schedules.store.schedules.of_zone(tokyo, "fig", 10) == ["pear"]
    assert await schedules.store.schedules.of_zone(tokyo, "", 1) == ["fig"]


@pytest.mark.requirement("C4")
async def test_a_trigger_makes_one_delivery_now_without_changing_the_plan(
    schedules: ScheduleProbe,
) -> None:
    await schedules.declare("daily", HOURLY)
    id = await schedules.service.trigger("daily")
    another = await schedules.service.trigger("daily")
    assert id != another
    delivery = await schedules.store.deliveries.get(id)
    assert (delivery.due_at, delivery.scheduled_for, delivery.schedule) == (START, START, "daily")
    assert {each.id for each in await schedules.claim()} == {id, another}
    schedule = await schedules.get()
    assert (schedule.progress.runs, schedule.progress.made_at) == (1, ONE)


@pytest.mark.requirement("C4")
async def test_a_backfill_makes_missing_occurrences_and_repeating_it_makes_none(
    schedules: ScheduleProbe,
) -> None:
    await schedules.declare("daily", HOURLY)
    schedules.probe.clock.advance(3 * HOUR)
    await schedules.planner.catch_up()
    start, end = ONE - 2 * HOUR, ONE + 2 * HOUR
    made = [each async for each in schedules.service.backfill("daily", start, end)]
    assert made == [4]
    assert [each async for each in schedules.service.backfill("daily", start, end)] == [0]
    assert await schedules.occurrences() == [
        "2026-03-01T15:00:00Z",
        *(f"2026-03-01T{hour}:00:00Z" for hour in (11, 12, 13, 14)),
        "2026-03-01T16:00:00Z",
    ]
    details = [each.detail for each in await schedules.audit() if each.action == "schedule.run"]
    whole = {"from": "2026-03-01T11:00:00Z", "to": "2026-03-01T15:00:00Z"}
    assert details == [{"made": 4, **whole}]


@pytest.mark.requirement("C1", "C4")
@pytest.mark.parametrize("catch_up", ["all", "latest"])
async def test_a_backfill_concurrent_with_a_planner_makes_each_occurrence_once(
    schedules: ScheduleProbe, other_schedules: ScheduleProbe, catch_up: str
) -> None:
    await schedules.declare("daily", every("1m"), catch_up=catch_up)
    schedules.probe.clock.advance(HOUR)
    now = schedules.probe.clock.now()

    async def backfill() -> None:
        async for _ in schedules.service.backfill("daily", now - 2 * HOUR, now):
            pass

    # Written but not committed when the planner comes to the same moments.
    arm("schedule.middle=sleep:0.3")
    async with asyncio.timeout(30):
        await asyncio.gather(backfill(), other_schedules.planner.catch_up())
    found = await schedules.occurrences()
    assert len(found) == len(set(found)) == 121


@pytest.mark.requirement("C1")
async def test_a_failure_in_the_middle_of_a_trigger_leaves_nothing(
    schedules: ScheduleProbe,
) -> None:
    await schedules.declare("daily", HOURLY)
    before = await schedules.everything()
    arm("schedule.middle=raise")
    with pytest.raises(FailpointRaised):
        await schedules.service.trigger("daily")
    assert await schedules.everything() == before


async def test_resuming_a_schedule_that_is_not_paused_changes_nothing(
    schedules: ScheduleProbe,
) -> None:
    await schedules.declare("daily", HOURLY)
    before = await schedules.everything()
    await schedules.service.resume("daily")
    assert await schedules.everything() == before


@pytest.mark.requirement("C4")
async def test_a_retried_dead_letter_counts_as_unfinished(schedules: ScheduleProbe) -> None:
    await schedules.declare("daily", HOURLY, overlap="skip")
    schedules.probe.clock.advance(HOUR)
    (claimed,) = await schedules.claim()
    await schedules.planner.catch_up()
    later = await schedules.pending()
    assert await schedules.store.schedules.unfinished_before(later, "none") == 1
    await schedules.probe.settle(settlement(claimed, Verdict.DEAD, schedules.probe.clock.now()))
    assert await schedules.store.schedules.unfinished_before(later, "none") == 0
    await schedules.store.deliveries.retry(claimed.id)
    assert await schedules.store.schedules.unfinished_before(later, "none") == 1
    await schedules.probe.sql("delete from duly.agenda")
    await schedules.store.maintenance.sweep("00000000-0000-0000-0000-000000000000", 100)
    assert await schedules.store.schedules.unfinished_before(later, "none") == 1


async def test_moments_are_written_in_the_dialect_of_the_store(probe: StoreProbe) -> None:
    """Other tests use this to move rows back in time."""
    schedules = ScheduleProbe(probe)
    await schedules.declare("daily", HOURLY)
    await probe.sql(f"update duly.progress set made_at = {sql_moment(probe, START)}")
    assert (await schedules.get()).progress.made_at == START
    assert isinstance(probe.store.database, Postgres) == sql_moment(probe, START).startswith(
        "timest"
    )
