"""`duly migrate`, `prune`, `bench` and `config`."""

import json
from pathlib import Path

import apsw
import pytest

from tests.surfaces.processes import Home


def test_migrate_shows_applies_and_prints_the_schema(empty_home: Home) -> None:
    if empty_home.database.startswith("sqlite"):
        apsw.Connection(empty_home.database.removeprefix("sqlite:///")).close()
    before = empty_home.json("migrate", "status")
    assert (before["applied"], before["current"]) == ([], False)
    assert empty_home.json("migrate", "up")["applied"] == before["waiting"]
    assert empty_home.json("migrate", "sql")["items"] == []


async def test_the_printed_sql_makes_a_working_store(empty_home: Home) -> None:
    script = empty_home.ok("migrate", "sql", "--all")
    await empty_home.execute(script)
    assert empty_home.json("migrate", "status")["current"] is True
    assert empty_home.json("deliveries", "list")["items"] == []


def test_an_old_schema_is_refused_with_a_remedy(sqlite_home: Home) -> None:
    apsw.Connection(sqlite_home.database.removeprefix("sqlite:///")).close()
    sqlite_home.write("duly.db", "")
    done = sqlite_home.duly("deliveries", "list")
    assert done.returncode == 1
    assert "duly migrate up" in done.stderr


async def finished(home: Home) -> None:
    """Two cancelled deliveries and one that waits."""
    async with home.app() as app:
        stored = [await app.deliver("log", after=3600) for _ in range(3)]
        for each in stored[:2]:
            await app.cancel(each.id)


async def states(home: Home) -> list[str]:
    async with home.app() as app:
        return sorted(each.state for each in await app.list())


@pytest.mark.requirement("C10")
async def test_a_dry_run_counts_and_removes_nothing(home: Home) -> None:
    await finished(home)
    now = ("--completed-for", "0s")
    assert home.json("prune", *now, "--dry-run") == {
        "prunable": 2,
        "removed": 0,
        "dry_run": True,
    }
    assert await states(home) == ["cancelled", "cancelled", "pending"]
    assert home.json("prune", *now, "--yes")["removed"] == 2
    assert await states(home) == ["pending"]


async def test_a_prune_asks_first(sqlite_home: Home) -> None:
    await finished(sqlite_home)
    now = ("prune", "--completed-for", "0s")
    refused = sqlite_home.duly(*now, stdin="no\n")
    assert (refused.returncode, refused.stdout) == (0, "0 removed\n")
    assert "2 deliveries are older" in refused.stderr
    unasked = sqlite_home.duly(*now)
    assert unasked.returncode == 2
    assert "--yes" in unasked.stderr
    assert sqlite_home.ok(*now, stdin="y\n") == "2 removed"


async def test_a_bench_leaves_nothing_behind(home: Home) -> None:
    await finished(home)
    before = sorted(each.name for each in home.folder.iterdir())
    found = home.json("bench", "--count", "50", "--concurrency", "5")
    assert (found["count"], found["concurrency"]) == (50, 5)
    assert found["accepted_per_second"] > 0
    assert found["delivered_per_second"] > 0
    assert (found["concurrency"], found["best_concurrency"]) == (5, 2000)
    assert found["best_delivered_per_second"] > 0
    async with home.app("bench") as app:
        assert await app.list() == []
        assert await app.store.workers.all() == []
    assert len(await states(home)) == 3
    assert sorted(each.name for each in home.folder.iterdir()) == before


async def test_a_bench_refuses_a_namespace_that_is_in_use(
    tmp_path: Path, postgres_url: str
) -> None:
    home = Home(tmp_path, postgres_url)
    async with home.app("bench") as app:
        id = (await app.deliver("log", after=3600)).id
        assert home.duly("bench", "--count", "1").returncode == 5
        assert (await app.get(id)).state == "pending"


def test_settings_are_shown_with_their_origin_and_without_passwords(sqlite_home: Home) -> None:
    sqlite_home.write("duly.toml", "concurrency = 7\n")
    shown = sqlite_home.ok(
        "config", "show", "--json", "--database", "postgresql://me:hush@host/name",
        environ={"DULY_POLL": "2"},
    )  # fmt: skip
    found = {each["name"]: (each["value"], each["origin"]) for each in json.loads(shown)["items"]}
    assert found["database"] == ("postgresql://me:***@host/name", "flag")
    assert found["poll"] == (2.0, "DULY_POLL")
    assert found["concurrency"] == (7, "duly.toml")
    assert found["port"] == (8787, "default")
    assert "hush" not in shown


@pytest.mark.requirement("D14")
def test_settings_are_checked_all_at_once(sqlite_home: Home) -> None:
    sqlite_home.write("duly.toml", "poll = 99\n")
    done = sqlite_home.duly("config", "validate", environ={"DULY_PORT": "99999"})
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: port: '99999' from DULY_PORT is not valid; give a whole number from 0 to 65535",
        "error: poll: 99 from duly.toml is not valid; give a number from 0.01 to 60",
    ]
    sqlite_home.write("duly.toml", "poll = 9\n")
    assert sqlite_home.json("config", "validate") == {"valid": True, "problems": []}
    wrong = sqlite_home.duly("config", "validate", environ={"DULY_SECRET_KEY": "short"})
    assert wrong.stderr.startswith("error: secret_key: give base64 of 32 bytes")
    output = [line.split() for line in sqlite_home.ok("config", "show", "--origin").splitlines()]
    assert ["poll", "9.0", "duly.toml"] in output
