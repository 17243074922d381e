"""Schedules on the books: declared once, changed whole, and never half."""

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
from tests.stores.books import START, Books, number_id, opened, settlement
from tests.stores.rota import Rota, stored

HOURLY = cron("0 * * * *")
ONE = datetime(2026, 3, 1, 13, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NEWER_RULE = '{"kind":"lunar","phase":"full"}'


@pytest.fixture
def rota(books: Books) -> Rota:
    return Rota(books)


@pytest.fixture
def other_rota(elsewhere: Books) -> Rota:
    """As seen by another process."""
    return Rota(elsewhere)


async def declare_in_full(rota: Rota, **changes: Any) -> Any:
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
    return await rota.declare("daily", rule, {"team": 7}, **options | changes)


@pytest.mark.requirement("C2", "C3", "C4")
async def test_every_fact_of_a_declaration_is_on_the_books(rota: Rota) -> None:
    declared = await declare_in_full(rota)
    assert declared.change == "created"
    schedule = await rota.get()
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
    row = await rota.row()
    assert json.loads(row["rule"])["kind"] == "cron"
    assert row["zone"] == "Europe/Oslo"
    assert (row["zone_hash"], row["zone_version"]) == (
        fingerprint("Europe/Oslo"),
        zone_data_version(),
    )


@pytest.mark.requirement("C1", "C4")
async def test_the_next_occurrence_is_an_ordinary_pending_delivery(rota: Rota) -> None:
    await declare_in_full(rota)
    id = await rota.pending()
    nine_in_oslo = datetime(2026, 3, 2, 8, tzinfo=UTC)
    ledger = await rota.books.ledger(id)
    due = ledger["due_at"]
    assert nine_in_oslo < due < nine_in_oslo + timedelta(seconds=2.5)
    assert ledger | {"lane": None} == {
        "id": id,
        "lane": None,
        "target": await rota.books.target(),
        "priority": 8,
        "attempt": 0,
        "state": "pending",
        "namespace": "default",
        "stream": None,
        "position": None,
        "on_failure": None,
        "key": None,
        "address": None,
        "schedule": (await rota.get()).id,
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
        "token": None,
        "tags": ["red", "green"],
        "retry": '{"type":"none"}',
        "reason": None,
        "error": None,
        "payload": b'{"team":7}',
    }
    lane = await rota.books.lane(id)
    assert lane is not None
    assert (lane["due_at"], lane["priority"]) == (due, 8)
    assert lane["schedule"] == (await rota.get()).id
    booked = await rota.store.deliveries.get(id)
    assert (booked.schedule, booked.scheduled_for, booked.merged) == ("daily", nine_in_oslo, 0)


async def test_lanes_of_schedules_that_may_overlap_know_of_none(rota: Rota) -> None:
    await rota.declare("daily", HOURLY)
    lane = await rota.books.lane(await rota.pending())
    assert lane is not None
    assert lane["schedule"] is None


@pytest.mark.requirement("C1")
async def test_declaring_the_same_again_changes_nothing_at_all(rota: Rota) -> None:
    await declare_in_full(rota)
    before = await rota.everything()
    rota.books.clock.advance(60)
    again = await declare_in_full(rota)
    assert (again.change, again.version) == ("unchanged", 1)
    assert again.next_at == datetime(2026, 3, 2, 8, tzinfo=UTC)
    assert await rota.everything() == before


@pytest.mark.requirement("C1")
async def test_a_change_moves_what_is_pending_with_everything_about_it(rota: Rota) -> None:
    await rota.declare("daily", HOURLY, [1], tags=["red"], expires_after=60)
    id = await rota.pending()
    rota.books.clock.advance(60)
    declared = await rota.declare(
        "daily", cron("30 * * * *"), [2], "sms", tags=["blue"], priority=7, overlap="skip"
    )
    assert (declared.change, declared.version) == ("changed", 2)
    assert declared.updated_at == START + timedelta(seconds=60)
    assert declared.created_at == START
    assert await rota.books.count("deliveries") == await rota.books.count("agenda") == 1
    ledger, lane = await rota.books.ledger(id), await rota.books.lane(id)
    half_past = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    assert (ledger["due_at"], ledger["occurrence"]) == (half_past, "2026-03-01T12:30:00Z")
    assert (ledger["payload"], ledger["tags"], ledger["priority"]) == (b"[2]", ["blue"], 7)
    assert (ledger["expires_at"], ledger["target"]) == (None, await rota.books.target("sms"))
    assert lane is not None
    assert (lane["due_at"], lane["priority"]) == (half_past, 7)
    assert (lane["target"], lane["schedule"]) == (
        await rota.books.target("sms"),
        declared.id,
    )


@pytest.mark.requirement("C1")
async def test_what_was_claimed_is_not_changed_any_more(rota: Rota) -> None:
    await rota.declare("daily", HOURLY, [1])
    rota.books.clock.advance(HOUR)
    (claimed,) = await rota.claim()
    before = await rota.books.ledger(claimed.id), await rota.books.lane(claimed.id)
    await rota.declare("daily", cron("30 * * * *"), [2])
    assert (await rota.books.ledger(claimed.id), await rota.books.lane(claimed.id)) == before
    assert await rota.occurrences() == ["2026-03-01T13:00:00Z", "2026-03-01T13:30:00Z"]


async def change(rota: Rota) -> None:
    await rota.declare("daily", cron("30 * * * *"), [2])


async def pause(rota: Rota) -> None:
    await rota.people.pause("daily", "why")


async def remove(rota: Rota) -> None:
    await rota.people.remove("daily")


async def create(rota: Rota) -> None:
    await rota.declare("another", HOURLY, [3])


async def resume(rota: Rota) -> None:
    await rota.people.resume("paused")


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("deed", [create, change, pause, resume, remove])
@pytest.mark.parametrize("place", ["schedule.before", "schedule.middle"])
async def test_a_failure_in_the_middle_leaves_nothing_half_written(
    rota: Rota, deed: Any, place: str
) -> None:
    await rota.declare("daily", HOURLY, [1])
    await rota.declare("paused", HOURLY)
    await rota.people.pause("paused")
    before = await rota.everything()
    arm(f"{place}=raise")
    with pytest.raises(FailpointRaised):
        await deed(rota)
    arm("")
    assert await rota.everything() == before
    await deed(rota)
    assert await rota.everything() != before


@pytest.mark.requirement("C1")
async def test_a_lost_answer_is_mended_by_asking_again(rota: Rota) -> None:
    arm("schedule.after=raise")
    with pytest.raises(FailpointRaised):
        await rota.declare("daily", HOURLY, [1])
    arm("")
    assert (await rota.declare("daily", HOURLY, [1])).change == "unchanged"
    assert await rota.books.count("deliveries") == 1


@pytest.mark.requirement("C1")
async def test_of_two_creators_at_once_one_creates_and_the_other_finds_it(
    rota: Rota, other_rota: Rota
) -> None:
    # Long enough that both have looked, and found nothing, before either writes.
    arm("schedule.before=sleep:0.2")
    both = await asyncio.gather(
        rota.declare("daily", HOURLY, [1]), other_rota.declare("daily", HOURLY, [1])
    )
    assert sorted(each.change for each in both) == ["created", "unchanged"]
    assert len({(each.id, each.version, each.next_id) for each in both}) == 1
    assert await rota.occurrences() == ["2026-03-01T13:00:00Z"]
    assert len(await rota.audit()) == 1


@pytest.mark.requirement("C1")
async def test_of_many_who_declare_differently_each_is_done_whole(
    rota: Rota, other_rota: Rota
) -> None:
    arm("schedule.before=sleep:0.02")
    await asyncio.gather(
        *((rota, other_rota)[n % 2].declare("daily", HOURLY, [n]) for n in range(10))
    )
    schedule = await rota.get()
    assert schedule.version == 10
    ledger = await rota.books.ledger(await rota.pending())
    assert ledger["payload"] == schedule.contents.payload
    assert await rota.occurrences() == ["2026-03-01T13:00:00Z"]


@pytest.mark.requirement("C1")
async def test_the_store_itself_refuses_an_occurrence_that_is_there(rota: Rota) -> None:
    await rota.declare("daily", HOURLY)
    with pytest.raises(rota.store.database.refusals):
        await rota.books.sql(
            "insert into duly.deliveries (id, target, priority, namespace, schedule, occurrence,"
            " due_at, accepted_at, payload) select "
            f"'{number_id(99)}', target, priority, namespace, schedule, occurrence, due_at,"
            " accepted_at, payload from duly.deliveries"
        )
    twice = Planned(number_id(98), "2026-03-01T13:00:00Z", ONE, '{"overlap":"allow"}')
    assert await rota.store.schedules.add_runs(await rota.get(), [twice], "somebody") == 0
    assert await rota.books.count("deliveries") == await rota.books.count("agenda") == 1


async def test_a_removed_schedule_cancels_what_is_pending_and_its_name_is_free(rota: Rota) -> None:
    first = await rota.declare("daily", HOURLY)
    id = await rota.pending()
    removed = await rota.people.remove("daily")
    assert removed.id == first.id
    with pytest.raises(NotFound):
        await rota.get()
    booked = await rota.store.deliveries.get(id)
    assert (booked.state, booked.reason, booked.finished_at) == ("cancelled", "cancelled", START)
    assert [each.outcome for each in await rota.store.deliveries.history(id)] == ["cancelled"]
    assert await rota.books.count("agenda") == await rota.books.count("progress") == 0
    again = await rota.declare("daily", HOURLY)
    assert (again.change, again.id > first.id) == ("created", True)
    assert await rota.books.count("agenda") == 1


async def test_removing_leaves_what_is_under_way(rota: Rota) -> None:
    await rota.declare("daily", HOURLY)
    rota.books.clock.advance(HOUR)
    (claimed,) = await rota.claim()
    await rota.people.remove("daily")
    assert (await rota.store.deliveries.get(claimed.id)).state == "processing"


@pytest.mark.requirement("C4")
async def test_a_paused_schedule_has_nothing_on_the_books(rota: Rota) -> None:
    await rota.declare("daily", HOURLY)
    paused = await rota.people.pause("daily", "the moon")
    assert (paused.state, paused.paused_at, paused.pause_reason) == ("paused", START, "the moon")
    assert await rota.books.count("deliveries") == await rota.books.count("agenda") == 0
    rota.books.clock.advance(DAY)
    await rota.planner.catch_up()
    assert await rota.books.count("deliveries") == 0
    resumed = await rota.people.resume("daily")
    assert (resumed.state, resumed.paused_at, resumed.pause_reason) == ("active", None, None)
    assert await rota.occurrences() == ["2026-03-02T13:00:00Z"]


@pytest.mark.requirement("C4")
async def test_pausing_leaves_what_is_under_way_and_does_not_repeat_it(rota: Rota) -> None:
    await rota.declare("daily", HOURLY)
    rota.books.clock.advance(HOUR)
    (claimed,) = await rota.claim()
    await rota.people.pause("daily")
    await rota.people.resume("daily", from_pause=True)
    assert (await rota.store.deliveries.get(claimed.id)).state == "processing"
    assert await rota.occurrences() == ["2026-03-01T13:00:00Z", "2026-03-01T14:00:00Z"]


async def test_what_a_missing_schedule_is_asked_for_is_refused_by_its_name(rota: Rota) -> None:
    for asked in (
        rota.people.get("no such"),
        rota.people.pause("no such"),
        rota.people.resume("no such"),
        rota.people.remove("no such"),
        rota.people.trigger("no such"),
        rota.people.preview("no such"),
    ):
        with pytest.raises(NotFound, match="no schedule 'no such'"):
            await asked


async def test_schedules_are_paged_by_their_names(rota: Rota) -> None:
    for name in ("pear", "apple", "fig", "Äpfel"):
        await rota.declare(name, HOURLY)
    names = [each.name for each in await rota.people.list()]
    assert sorted(names) == sorted(["pear", "apple", "fig", "Äpfel"])
    paged: list[str] = []
    while page := await rota.people.list(after=paged[-1] if paged else "", limit=1):
        paged += [each.name for each in page]
    assert paged == names


async def test_namespaces_keep_their_schedules_apart(rota: Rota, books_url: str) -> None:
    others = Rota(await opened(books_url, rota.books.clock, "other"))
    try:
        await rota.declare("daily", HOURLY)
        assert (await others.declare("daily", every("1m"))).change == "created"
        rota.books.clock.advance(DAY)
        await rota.planner.catch_up()
        assert (await others.get()).progress.runs == 1
        await others.people.remove("daily")
        assert (await rota.get()).progress.runs == 2
        assert [each.action for each in await others.audit()] == [
            "schedule.removed",
            "schedule.created",
        ]
    finally:
        await others.store.close()


async def test_who_changed_what_is_written_with_the_change(rota: Rota) -> None:
    await rota.declare("daily", HOURLY)
    rota.books.clock.advance(10)
    await rota.people.pause("daily", "the moon")
    rota.books.clock.advance(10)
    await rota.people.resume("daily", from_pause=True)
    entries = await rota.audit()
    assert [(each.actor, each.action, each.subject, each.detail) for each in entries] == [
        ("somebody", "schedule.resumed", "daily", {"from_pause": True}),
        ("somebody", "schedule.paused", "daily", {"reason": "the moon"}),
        ("somebody", "schedule.created", "daily", None),
    ]
    assert [each.done_at for each in entries] == [
        START + timedelta(seconds=20),
        START + timedelta(seconds=10),
        START,
    ]
    (older,) = await rota.store.audit.page(5, before=entries[1].id)
    assert older == entries[2]


async def unreadable(rota: Rota, name: str = "lunar", **columns: str) -> None:
    """A schedule that a newer version has written over."""
    changed = columns or {"rule": NEWER_RULE}
    settings = ", ".join(f"{column} = '{value}'" for column, value in changed.items())
    await rota.books.sql(f"update duly.schedules set {settings} where name = '{name}'")


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
async def test_what_a_newer_version_wrote_is_reported_and_hides_no_other(
    rota: Rota, columns: dict[str, str]
) -> None:
    for name in ("apple", "lunar", "pear"):
        await rota.declare(name, HOURLY)
    await unreadable(rota, **columns)
    apple, lunar, pear = await rota.people.list()
    assert (apple.name, pear.name) == ("apple", "pear")
    assert (lunar.name, lunar.state) == ("lunar", "unreadable")
    assert lunar.problem
    with pytest.raises(UnreadableRule):
        await rota.people.get("lunar")
    before = await rota.row("lunar")
    with pytest.raises(UnreadableRule):
        await rota.declare("lunar", every("1m"))
    assert await rota.row("lunar") == before


@pytest.mark.requirement("C1")
async def test_only_what_nobody_ever_held_is_untouched(rota: Rota) -> None:
    """Claimed, given back after a crash, and waiting for another attempt: all were touched."""
    names = ["claimed", "crashed", "fresh", "released", "retried"]
    for name in names:
        await rota.declare(name, HOURLY)
    ids = {name: await rota.pending(name) for name in names}
    rota.books.clock.advance(HOUR)
    claimed = {each.id: each for each in await rota.claim()}
    now = rota.books.clock.now()
    await rota.books.settle(
        settlement(claimed[ids["retried"]], Verdict.RETRY, now),
        settlement(claimed[ids["crashed"]], Verdict.RECLAIMED, now, crashes=1),
        settlement(claimed[ids["released"]], Verdict.RELEASED, now),
        settlement(claimed[ids["fresh"]], Verdict.DEFERRED, now),
    )
    async with rota.store.plans.lock_due(now, 10, []) as locked:
        found = await locked.untouched([*ids.values(), None])
    assert found == {ids["fresh"], ids["released"]}


@pytest.mark.requirement("D15")
async def test_the_sweep_gives_back_an_occurrence_that_was_deleted_by_hand(rota: Rota) -> None:
    for name in ("apple", "fig", "pear", "paused", "finished"):
        await rota.declare(name, HOURLY, end=ONE if name == "finished" else None)
    await rota.people.pause("paused")
    await rota.books.sql("delete from duly.deliveries where occurrence is not null")
    await rota.books.sql("delete from duly.agenda")
    await rota.declare("whole", HOURLY)
    mender = partial(repair_schedules, rota.store.schedules, SystemChance().delivery_id)
    mended, after = await mender("", 3)
    assert after is not None
    more, after = await mender(after, 10)
    assert (mended + more, after) == (4, None)
    assert await mender("", 100) == (0, None)
    for name in ("apple", "fig", "pear", "finished", "whole"):
        assert await rota.occurrences(name) == ["2026-03-01T13:00:00Z"]
        assert (await rota.get(name)).progress.runs == 1
    assert await rota.occurrences("paused") == []
    assert await rota.books.count("agenda") == 5
    actors = [each.actor for each in await rota.audit() if each.action == "schedule.mended"]
    assert actors == ["sweeper"] * 4


@pytest.mark.requirement("D15")
async def test_what_cannot_be_read_does_not_stop_the_sweep(rota: Rota) -> None:
    for name in ("apple", "lunar", "pear"):
        await rota.declare(name, HOURLY)
    await unreadable(rota)
    await rota.books.sql("delete from duly.deliveries")
    await rota.books.sql("delete from duly.agenda")
    mender = partial(repair_schedules, rota.store.schedules, SystemChance().delivery_id)
    assert await mender("", 100) == (2, None)


@pytest.mark.requirement("D15", "C10")
@pytest.mark.parametrize("is_hurried", [False, True])
async def test_an_occurrence_ended_before_its_time_does_not_come_back(
    rota: Rota, is_hurried: bool
) -> None:
    """Cancelled, or retried at once and done: pruning must not let the sweep make it again."""
    await rota.declare("daily", yearly(12, 1))
    id = await rota.pending()
    if is_hurried:
        await rota.store.deliveries.retry(id)
        (claimed,) = await rota.claim()
        await rota.books.settle(settlement(claimed, Verdict.COMPLETED, START))
    else:
        await rota.store.deliveries.cancel(id)
    rota.books.clock.advance(30 * DAY)
    beginning = "00000000-0000-0000-0000-000000000000"
    assert await rota.store.maintenance.count_prunable(DAY, DAY, beginning, 100) == (0, None)
    assert await rota.store.maintenance.prune(DAY, DAY, beginning, 100) == (0, None)
    mender = partial(repair_schedules, rota.store.schedules, SystemChance().delivery_id)
    assert await mender("", 100) == (0, None)
    rota.books.clock.advance(300 * DAY)
    await rota.planner.catch_up()
    assert await rota.occurrences() == ["2026", "2027"]
    assert (await rota.store.maintenance.prune(DAY, DAY, beginning, 100))[0] == 1


async def test_the_zones_in_use_are_told_with_the_data_they_were_computed_from(rota: Rota) -> None:
    rules: dict[str, Rule] = {
        "apple": cron("0 9 * * *", tz="Europe/Oslo"),
        "fig": yearly(1, 1, tz="Asia/Tokyo"),
        "kiwi": every("1h"),
        "pear": yearly(2, 2, tz="Asia/Tokyo"),
    }
    for name, rule in rules.items():
        await rota.declare(name, rule)
    uses = {each.zone: each for each in await rota.store.schedules.zones()}
    assert set(uses) == {"Europe/Oslo", "Asia/Tokyo"}
    tokyo = uses["Asia/Tokyo"]
    assert (tokyo.hash, tokyo.version) == (fingerprint("Asia/Tokyo"), zone_data_version())
    assert await rota.store.schedules.of_zone(tokyo, "", 10) == ["fig", "pear"]
    assert await rota.store.schedules.of_zone(tokyo, "fig", 10) == ["pear"]
    assert await rota.store.schedules.of_zone(tokyo, "", 1) == ["fig"]


@pytest.mark.requirement("C4")
async def test_a_trigger_makes_one_delivery_now_beside_the_plan(rota: Rota) -> None:
    await rota.declare("daily", HOURLY)
    id = await rota.people.trigger("daily")
    another = await rota.people.trigger("daily")
    assert id != another
    booked = await rota.store.deliveries.get(id)
    assert (booked.due_at, booked.scheduled_for, booked.schedule) == (START, START, "daily")
    assert {each.id for each in await rota.claim()} == {id, another}
    schedule = await rota.get()
    assert (schedule.progress.runs, schedule.progress.made_at) == (1, ONE)


@pytest.mark.requirement("C4")
async def test_a_backfill_makes_what_was_missing_and_repeating_it_makes_none(rota: Rota) -> None:
    await rota.declare("daily", HOURLY)
    rota.books.clock.advance(3 * HOUR)
    await rota.planner.catch_up()
    start, end = ONE - 2 * HOUR, ONE + 2 * HOUR
    made = [each async for each in rota.people.backfill("daily", start, end)]
    assert made == [4]
    assert [each async for each in rota.people.backfill("daily", start, end)] == [0]
    assert await rota.occurrences() == [
        "2026-03-01T15:00:00Z",
        *(f"2026-03-01T{hour}:00:00Z" for hour in (11, 12, 13, 14)),
        "2026-03-01T16:00:00Z",
    ]
    details = [each.detail for each in await rota.audit() if each.action == "schedule.run"]
    whole = {"from": "2026-03-01T11:00:00Z", "to": "2026-03-01T15:00:00Z"}
    assert details == [{"made": 4, **whole}]


@pytest.mark.requirement("C1", "C4")
@pytest.mark.parametrize("catch_up", ["all", "latest"])
async def test_a_backfill_beside_a_planner_makes_each_once_and_fails_neither(
    rota: Rota, other_rota: Rota, catch_up: str
) -> None:
    await rota.declare("daily", every("1m"), catch_up=catch_up)
    rota.books.clock.advance(HOUR)
    now = rota.books.clock.now()

    async def backfill() -> None:
        async for _ in rota.people.backfill("daily", now - 2 * HOUR, now):
            pass

    # Written, but not yet for good, when the planner comes to the same moments.
    arm("schedule.middle=sleep:0.3")
    async with asyncio.timeout(30):
        await asyncio.gather(backfill(), other_rota.planner.catch_up())
    found = await rota.occurrences()
    assert len(found) == len(set(found)) == 121


@pytest.mark.requirement("C1")
async def test_a_failure_in_the_middle_of_a_trigger_leaves_nothing(rota: Rota) -> None:
    await rota.declare("daily", HOURLY)
    before = await rota.everything()
    arm("schedule.middle=raise")
    with pytest.raises(FailpointRaised):
        await rota.people.trigger("daily")
    assert await rota.everything() == before


async def test_resuming_what_is_not_paused_changes_nothing(rota: Rota) -> None:
    await rota.declare("daily", HOURLY)
    before = await rota.everything()
    await rota.people.resume("daily")
    assert await rota.everything() == before


@pytest.mark.requirement("C4")
async def test_a_dead_letter_that_is_tried_again_still_counts_as_unfinished(rota: Rota) -> None:
    await rota.declare("daily", HOURLY, overlap="skip")
    rota.books.clock.advance(HOUR)
    (claimed,) = await rota.claim()
    await rota.planner.catch_up()
    later = await rota.pending()
    assert await rota.store.schedules.unfinished_before(later, "none") == 1
    await rota.books.settle(settlement(claimed, Verdict.DEAD, rota.books.clock.now()))
    assert await rota.store.schedules.unfinished_before(later, "none") == 0
    await rota.store.deliveries.retry(claimed.id)
    assert await rota.store.schedules.unfinished_before(later, "none") == 1
    await rota.books.sql("delete from duly.agenda")
    await rota.store.maintenance.sweep("00000000-0000-0000-0000-000000000000", 100)
    assert await rota.store.schedules.unfinished_before(later, "none") == 1


async def test_moments_are_spelled_for_the_dialect(books: Books) -> None:
    """What the tests themselves rely on when they date rows back."""
    rota = Rota(books)
    await rota.declare("daily", HOURLY)
    await books.sql(f"update duly.progress set made_at = {stored(books, START)}")
    assert (await rota.get()).progress.made_at == START
    assert isinstance(books.store.database, Postgres) == stored(books, START).startswith("timest")
