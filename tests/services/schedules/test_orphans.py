"""Schedules that left the code are found, shown and removed; no others are ever touched."""

import functools
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import duly
from duly import App
from duly.domain.events import Event, OrphansFound, OrphansRemoved
from duly.engine.supervisor import Engine
from duly.errors import InvalidInput
from duly.failpoints import arm
from duly.services.schedules.orphans import Orphans
from duly.testing import VirtualClock, run_until_idle

pytestmark = pytest.mark.requirement("P9")

HOURLY, DAILY = duly.cron("0 * * * *"), duly.cron("0 6 * * *")
LEASE = 12.0
Version = Callable[..., App]


@pytest.fixture
def version(database_url: str, clock: VirtualClock) -> Version:
    return versions(database_url, clock)


@pytest.fixture
def shared_version(postgres_url: str, clock: VirtualClock) -> Version:
    """On PostgreSQL only: several processes may work on it at once."""
    return versions(postgres_url, clock)


def versions(url: str, clock: VirtualClock) -> Version:
    def version(*names: str, program: str = "shop", **settings: Any) -> App:
        """A version of a program, whose code declares schedules with these names."""
        app = App(url, clock=clock, environment={}, program=program, lease=LEASE, **settings)

        @app.handler("work")
        async def weekly(delivery: Any) -> None: ...

        for name in names:
            app.schedule(HOURLY, name=name)(weekly)
        return app

    return version


async def start(app: App) -> list[Event]:
    """Start a worker of the app and stop it again; returns the events."""
    seen: list[Event] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app.declarations, "_emit", seen.append)
        async with app:
            await run_until_idle(app)
    return seen


@asynccontextmanager
async def alive(app: App) -> AsyncIterator[Engine]:
    """A worker of the app, which lives as long as the block."""
    async with app:
        engine = app.engine(stepped=True)
        await engine.prepare()
        try:
            yield engine
        finally:
            await engine.stop()


async def orphans(app: App) -> list[str]:
    async with app:
        return [each.name for each in await app.schedules.orphans()]


async def names(app: App) -> list[str]:
    async with app:
        return [each.name for each in await app.schedules.list()]


async def test_a_schedule_that_the_code_no_longer_declares_is_an_orphan_and_still_delivers(
    version: Version, clock: VirtualClock
) -> None:
    await start(version("weekly", "daily"))
    assert await orphans(version()) == []
    clock.advance(60)
    (found,) = await start(version("daily"))
    assert found == OrphansFound(orphans=1, schedules=["weekly"])
    async with version() as app:
        (orphan,) = await app.schedules.orphans()
        assert orphan.declared_in == f"{__name__}.weekly"
        assert (orphan.name, orphan.program, orphan.target) == ("weekly", "shop", "work")
        assert orphan.left_at == clock.now()
        assert orphan.next_at == (await app.schedules.get("weekly")).next_at is not None


async def test_a_schedule_shows_where_the_code_declares_it(version: Version) -> None:
    async with version("weekly") as app:
        assert (await app.schedules.get("weekly")).declared_in == f"{__name__}.weekly"
        changed = await app.schedules.edit("weekly", priority=9)
        assert changed.declared_in == f"{__name__}.weekly"
        assert (await app.schedule("by name", HOURLY, "work")).declared_in is None


async def test_a_later_start_keeps_the_moment_at_which_a_schedule_left_the_code(
    version: Version, clock: VirtualClock
) -> None:
    await start(version("weekly"))
    await start(version())
    left_at = clock.now()
    clock.advance(60)
    assert await start(version()) == [OrphansFound(orphans=1, schedules=["weekly"])]
    async with version() as app:
        assert [each.left_at for each in await app.schedules.orphans()] == [left_at]


async def test_a_program_that_declares_no_schedule_any_more_leaves_them_all(
    version: Version,
) -> None:
    await start(version("a", "b"))
    await start(version())
    assert await orphans(version()) == ["a", "b"]


async def test_a_schedule_that_is_declared_again_is_no_orphan(version: Version) -> None:
    await start(version("weekly"))
    await start(version())
    async with version("weekly") as app:
        assert await app.schedules.orphans() == []
    assert await start(version("weekly")) == []
    assert await orphans(version()) == []


async def test_schedules_made_otherwise_are_never_listed_nor_removed(version: Version) -> None:
    async with version("weekly") as app:
        await app.schedule("by name", HOURLY, "work")
        await app.acting_as("key:1").schedules.declare("by request", HOURLY, "work")
        await app.schedules.create_many([("many", HOURLY, "work", None, {})])
        await run_until_idle(app)
    (removed,) = await start(version(prune_schedules=True))
    assert removed == OrphansRemoved(orphans=1, schedules=["weekly"])
    async with version() as app:
        assert await app.schedules.orphans() == []
        assert await app.schedules.remove_orphans() == []
        assert await app.schedules.remove_orphans(["many", "by name"]) == []
    assert await names(version()) == ["by name", "by request", "many"]


async def test_a_schedule_made_by_hand_belongs_to_the_code_that_declares_it_too(
    version: Version,
) -> None:
    async with version() as app:
        await app.schedule("weekly", DAILY, "work")
    await start(version("weekly"))
    await start(version())
    assert await orphans(version()) == ["weekly"]


async def test_a_removal_cancels_the_next_delivery_and_is_in_the_audit_trail(
    version: Version,
) -> None:
    await start(version("a", "b", "c"))
    await start(version("c"))
    async with version() as app:
        next_id = (await app.schedules.get("a")).next_id
        assert await app.acting_as("key:1").schedules.remove_orphans(["a", "c", "typo"]) == ["a"]
        assert (await app.get(str(next_id))).state == "cancelled"
        (entry, *_) = await app.audit.list()
        assert (entry.actor, entry.action, entry.subject) == ("key:1", "schedule.removed", "a")
        assert entry.detail == {"declared_in": f"{__name__}.weekly"}
        assert await app.schedules.remove_orphans([]) == []
        assert await app.schedules.remove_orphans() == ["b"]
        assert await app.schedules.remove_orphans() == []
    assert await names(version()) == ["c"]


async def test_more_orphans_than_a_page_are_listed_by_page_and_all_removed(
    version: Version,
) -> None:
    many = [f"s{number:03}" for number in range(130)]
    await start(version(*many))
    (found,) = await start(version())
    assert found == OrphansFound(orphans=130, schedules=many[:100])
    async with version() as app:
        page = await app.schedules.orphans(limit=50, after="s099")
        assert [each.name for each in page] == many[100:]
        assert len(await app.schedules.orphans()) == 50
        assert await app.schedules.remove_orphans() == many


async def test_the_setting_removes_orphans_at_the_start_and_says_so(version: Version) -> None:
    await start(version("weekly", "daily"))
    (removed,) = await start(version("daily", prune_schedules=True))
    assert removed == OrphansRemoved(orphans=1, schedules=["weekly"])
    assert await names(version()) == ["daily"]
    async with version() as app:
        assert [each.subject for each in await app.audit.list(limit=1)] == ["weekly"]
    assert await start(version("daily", prune_schedules=True)) == []


async def test_a_process_that_only_opens_the_app_decides_nothing(version: Version) -> None:
    await start(version("weekly"))
    async with version(prune_schedules=True):
        pass
    assert await orphans(version()) == []
    await start(version())
    assert await orphans(version()) == ["weekly"]


async def test_a_schedule_that_a_script_declared_is_an_orphan_when_a_worker_does_not(
    version: Version,
) -> None:
    async with version("weekly"):
        pass
    await start(version())
    assert await orphans(version()) == ["weekly"]


async def test_programs_of_one_namespace_never_orphan_the_schedules_of_each_other(
    version: Version,
) -> None:
    await start(version("x", "old", program="a"))
    assert await start(version("y", program="b", prune_schedules=True)) == []
    await start(version("x", program="a"))
    assert await start(version("y", program="b", prune_schedules=True)) == []
    assert await orphans(version()) == ["old"]
    assert await names(version()) == ["old", "x", "y"]


async def test_another_namespace_is_not_concerned(version: Version) -> None:
    await start(version("weekly", namespace="north"))
    await start(version("weekly"))
    await start(version(namespace="north"))
    assert await orphans(version()) == []
    assert await orphans(version(namespace="north")) == ["weekly"]


async def test_while_an_old_worker_lives_its_schedules_are_no_orphans(
    shared_version: Version,
) -> None:
    async with alive(shared_version("weekly", "daily")):
        assert await start(shared_version("daily", prune_schedules=True)) == []
        assert await orphans(shared_version()) == []
        async with shared_version() as app:
            assert await app.schedules.remove_orphans() == []
    assert await orphans(shared_version()) == ["weekly"]
    await start(shared_version("daily", prune_schedules=True))
    assert await names(shared_version()) == ["daily"]


async def test_an_old_worker_protects_its_schedules_until_its_lease_runs_out(
    shared_version: Version, clock: VirtualClock
) -> None:
    async with alive(shared_version("weekly")) as engine:
        await start(shared_version())
        clock.advance(LEASE)
        assert await orphans(shared_version()) == []
        clock.advance(1)
        assert await orphans(shared_version()) == ["weekly"]
        await start(shared_version())
        await engine.worker.step()
        assert await orphans(shared_version()) == [], "it registered again, and declares it"


async def test_an_old_process_does_not_declare_a_removed_schedule_again(
    version: Version,
) -> None:
    old = version("weekly")
    async with old:
        await run_until_idle(old)
        async with version() as other:
            await other.schedules.remove("weekly")
        await run_until_idle(old)
        assert await old.schedules.list() == []
    assert await names(version("weekly")) == ["weekly"], "a new start declares it again"


async def test_a_code_declared_schedule_that_is_changed_by_hand_stays_code_declared(
    version: Version,
) -> None:
    await start(version("edited", "replaced", "paused"))
    async with version("edited", "replaced", "paused") as app:
        requests = app.acting_as("key:1").schedules
        await requests.edit("edited", rule=DAILY)
        await requests.declare("replaced", DAILY, "work")
        await requests.pause("paused")
    async with version(program="another") as app:
        await app.schedule("replaced", DAILY, "work", {"by": "another"})
    await start(version())
    assert await orphans(version()) == ["edited", "paused", "replaced"]
    async with version() as app:
        await app.schedules.edit("edited", priority=9)
    assert await orphans(version()) == ["edited", "paused", "replaced"]


async def test_a_schedule_created_after_the_removal_is_no_orphan(version: Version) -> None:
    await start(version("weekly"))
    await start(version(prune_schedules=True))
    async with version() as app:
        await app.acting_as("key:1").schedules.declare("weekly", HOURLY, "work")
    assert await start(version(prune_schedules=True)) == []
    assert await names(version()) == ["weekly"]


async def test_an_orphan_that_is_declared_by_name_is_taken_over(version: Version) -> None:
    await start(version("weekly"))
    await start(version())
    async with version(program="another") as app:
        declared = await app.acting_as("key:1").schedules.declare("weekly", HOURLY, "work")
        assert declared.change == "unchanged"
    assert await start(version(prune_schedules=True)) == []
    assert await names(version()) == ["weekly"]


async def test_a_decorator_may_be_replaced_by_a_declaration_by_name(version: Version) -> None:
    await start(version("weekly"))
    app = version(prune_schedules=True)
    async with app:
        await app.schedule("weekly", HOURLY, "work")
        await run_until_idle(app)
        assert (await app.schedules.get("weekly")).version == 1, "it was not removed meanwhile"
    assert await orphans(version()) == []


async def test_a_worker_decides_nothing_about_a_module_that_it_did_not_import(
    version: Version, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "shop_of_test"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported to find out')")
    (package / "mail.py").write_text("")

    async def weekly(delivery: Any) -> None: ...

    weekly.__module__ = "shop_of_test.mail"
    app = version()
    app.schedule(HOURLY, name="weekly")(app.handler("mail")(weekly))
    await start(app)
    await start(version())
    assert await orphans(version()) == []
    (package / "mail.py").unlink()
    for each in list(sys.path_importer_cache.values()):
        getattr(each, "invalidate_caches", lambda: None)()
    await start(version())
    assert await orphans(version()) == ["weekly"]


async def test_a_program_without_a_name_decides_nothing(version: Version) -> None:
    await start(version("weekly", program="__main__"))
    assert await start(version(program="__main__", prune_schedules=True)) == []
    assert (await orphans(version()), await names(version())) == ([], ["weekly"])


async def test_a_removal_that_fails_midway_removes_whole_schedules_only(version: Version) -> None:
    await start(version("a", "b"))
    await start(version())
    async with version() as app:
        arm("schedule.middle=raise@2")
        with pytest.raises(Exception, match=r"schedule\.middle"):
            await app.schedules.remove_orphans()
        arm("")
        next_id = (await app.schedules.get("b")).next_id
        assert (await app.get(str(next_id))).state == "pending"
        entries = [each.subject for each in await app.audit.list() if "removed" in each.action]
        assert entries == ["a"]
        assert await app.schedules.remove_orphans() == ["b"]


async def test_the_module_that_makes_the_app_is_the_program(database_url: str) -> None:
    assert App(database_url, environment={}).parts.program == __name__
    assert App(database_url, environment={}, program="shop").parts.program == "shop"


@pytest.mark.parametrize("given", ["weekly", 7, [7], [""]])
async def test_names_that_are_no_list_of_names_are_refused(version: Version, given: Any) -> None:
    async with version() as app:
        with pytest.raises(InvalidInput, match="names"):
            await app.schedules.remove_orphans(given)


async def test_a_bad_page_or_program_is_refused(version: Version) -> None:
    async with version() as app:
        with pytest.raises(InvalidInput, match="limit"):
            await app.schedules.orphans(limit=0)
    with pytest.raises(InvalidInput, match="program"):
        version(program="two words")


async def test_an_orphan_that_is_declared_again_meanwhile_is_not_removed(version: Version) -> None:
    await start(version("weekly"))
    await start(version())
    async with version() as app:
        (seen,) = await app.schedules.orphans()
        async with version("weekly"):
            pass
        assert not await Orphans(app.store, "key:1").remove_one(seen)
        assert [each.name for each in await app.schedules.list()] == ["weekly"]


async def test_a_schedule_that_another_program_declared_meanwhile_does_not_leave(
    version: Version,
) -> None:
    async with version("weekly", program="b") as app:
        await app.store.declarations.leave("a", ["weekly"])
        assert await app.schedules.orphans() == []
        await app.store.declarations.leave("b", ["weekly"])
        assert [each.program for each in await app.schedules.orphans()] == ["b"]


async def test_a_process_without_the_decorator_edits_by_hand_and_takes_nothing_over(
    version: Version,
) -> None:
    await start(version("monday"))
    async with version() as api_only:
        await api_only.acting_as("key:ops").schedules.declare("monday", DAILY, "work")
        edited = await api_only.schedules.get("monday")
    assert edited.declared_in is not None


async def test_a_function_without_a_name_of_its_own_can_be_scheduled(
    database_url: str, clock: VirtualClock
) -> None:
    app = App(database_url, clock=clock, environment={})

    async def work(team: int, delivery: duly.Delivery) -> None: ...

    app.schedule(HOURLY, name="monday")(app.handler("work")(functools.partial(work, 7)))
    async with app:
        found = await app.schedules.get("monday")
    assert found.declared_in == f"{functools.partial.__module__}.Handler"


async def test_finders_of_modules_that_are_incomplete_stop_no_start(
    version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Demanding:
        def find_spec(self, name: str, path: Any, target: Any) -> None:
            raise ImportError(name)

    monkeypatch.setattr(sys, "meta_path", [object(), Demanding(), *sys.meta_path])
    await start(version("monday"))
    await start(version())
    async with version() as app:
        assert [each.name for each in await app.schedules.orphans()] == ["monday"]
