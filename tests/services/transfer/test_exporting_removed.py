"""What a move keeps of past things: removed schedules, crashes, missed years."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

import duly
from duly import App
from duly.domain.deliveries.outcomes import Verdict
from duly.stores.deliveries.maintenance import BEGINNING
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import START
from tests.services.transfers import export_lines, import_lines, move
from tests.services.work import Work
from tests.stores.store_probe import StoreProbe, settlement

pytestmark = pytest.mark.requirement("C10")
DAY = timedelta(days=1)


async def ids_of(app: App, schedule: str) -> set[str]:
    """The deliveries of a schedule, found by its name."""
    return {each.id for each in (await app.page(schedule=schedule)).items}


async def run(app: App) -> None:
    """A schedule whose only occurrence has the same name whenever it is created."""
    await app.schedule("s", duly.at(START), "work", "s")
    await run_until_idle(app)


async def run_and_remove(app: App) -> None:
    await run(app)
    await app.schedules.remove("s")


async def test_deliveries_of_removed_schedules_are_found_by_their_names(
    work: Work, other: App
) -> None:
    await run_and_remove(work.app)
    await work.app.schedule("t", duly.yearly(3, 1), "work", "t")
    before = await ids_of(work.app, "s")
    assert before
    lines = await export_lines(work.app, everything=True)
    await import_lines(other, lines)
    assert await ids_of(other, "s") == before
    assert (await import_lines(other, lines))["deliveries"] == (0, len(lines) - 3)
    assert await ids_of(other, "s") == before


async def test_deliveries_of_recreated_schedules_are_kept_separate(work: Work, other: App) -> None:
    await run_and_remove(work.app)
    await run_and_remove(work.app)
    await run(work.app)
    before = await ids_of(work.app, "s")
    assert len(before) == 3
    await move(work.app, other, everything=True)
    assert await ids_of(other, "s") == before
    # Created once more, it has a new id.
    await other.schedules.remove("s")
    await other.schedule("s", duly.at(START), "work", "s")
    assert len(await ids_of(other, "s")) == 4


async def test_a_removed_schedule_is_deleted_with_its_last_delivery(
    work: Work, clock: VirtualClock, other: App
) -> None:
    await run_and_remove(work.app)
    await move(work.app, other, everything=True)
    clock.advance(400 * DAY)
    await other.store.maintenance.prune(DAY, DAY, BEGINNING, 1000)
    assert await ids_of(other, "s") == set()
    assert (
        await other.store.database.fetch_named("pages.numbers", namespace="default", schedule="s")
        == []
    )


async def test_the_crashes_of_a_dead_letter_are_kept(
    app: App, clock: VirtualClock, other: App
) -> None:
    probe = StoreProbe(app.store, clock)  # type: ignore[arg-type]
    claimed = await probe.claimed()
    await probe.settle(settlement(claimed, Verdict.DEAD, clock.now(), crashes=3))
    await move(app, other)
    assert (await other.get(claimed.id)).crashes == 3


async def test_a_year_missed_before_an_edit_is_kept(
    work: Work, clock: VirtualClock, other: App
) -> None:
    app, now = work.app, clock.now()
    soon, later = now + 2 * DAY, now + 20 * DAY
    await app.schedule("s", duly.yearly(soon.month, soon.day), "work", "s")
    clock.advance(5 * DAY)
    await app.schedule("s", duly.yearly(later.month, later.day), "work", "s")
    before = (await app.store.schedules.get("s")).progress
    assert before.missed_at is not None
    await move(app, other)
    after = (await other.store.schedules.get("s")).progress
    assert msgspec.structs.asdict(after) == msgspec.structs.asdict(before)
