"""`duly doctor`: the verdict of each check, and the exit codes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from duly.records.worker import Worker
from duly.stores.migrations import Status
from duly.surfaces.cli.server.doctor_checks import (
    MEGABYTE,
    Check,
    CheckResult,
    clock_check,
    postgres_checks,
    schema_check,
    sqlite_checks,
    worker_checks,
)
from tests.support.postgres import Server
from tests.surfaces.processes import Home

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
POSTGRES = {
    "version": "16.4",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "read_only": None,
    "agenda_bytes": 64 * MEGABYTE,
    "agenda_index_bytes": 640 * MEGABYTE,
    "autovacuum_naptime": 10,
    "other_databases": 0,
}
SQLITE = {
    "version": "3.51.3",
    "path": "duly.db",
    "journal_mode": "wal",
    "synchronous": 2,
    "integrity": "ok",
}


def problems(checks: list[Check]) -> dict[str, CheckResult]:
    assert all(bool(each.remedy) is (each.verdict is not CheckResult.OK) for each in checks)
    return {each.name: each.verdict for each in checks if each.verdict is not CheckResult.OK}


def test_good_settings_are_ok() -> None:
    assert problems(postgres_checks(POSTGRES, timedelta())) == {}
    assert problems(sqlite_checks(SQLITE)) == {}


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("fsync", CheckResult.FAILED),
        ("full_page_writes", CheckResult.WARNING),
        ("synchronous_commit", CheckResult.FAILED),
    ],
)
def test_unsafe_settings_of_postgres_are_reported(name: str, verdict: CheckResult) -> None:
    assert problems(postgres_checks(POSTGRES | {name: "off"}, timedelta())) == {name: verdict}


@pytest.mark.parametrize(
    ("facts", "names"),
    [
        ({"agenda_index_bytes": 641 * MEGABYTE}, {"agenda"}),
        ({"agenda_bytes": MEGABYTE, "agenda_index_bytes": 30 * MEGABYTE}, set()),
        ({"autovacuum_naptime": 60}, {"autovacuum_naptime"}),
        ({"autovacuum_naptime": 60, "other_databases": 1}, set()),
        ({"autovacuum_naptime": 60, "agenda_bytes": MEGABYTE, "agenda_index_bytes": 0}, set()),
        ({"agenda_bytes": None, "agenda_index_bytes": None}, set()),
    ],
)
def test_an_agenda_that_is_vacuumed_too_rarely_is_a_warning(
    facts: dict[str, Any], names: set[str]
) -> None:
    found = problems(postgres_checks(POSTGRES | facts, timedelta()))
    assert found == dict.fromkeys(names, CheckResult.WARNING)


@pytest.mark.parametrize(
    ("fact", "value", "name"),
    [
        ("version", "3.51.2", "sqlite"),
        ("version", "3.9.10", "sqlite"),
        ("journal_mode", "delete", "journal_mode"),
        ("synchronous", 1, "synchronous"),
        ("integrity", "row 4 missing from index", "integrity"),
    ],
)
def test_unsafe_settings_of_sqlite_have_failed(fact: str, value: Any, name: str) -> None:
    assert problems(sqlite_checks(SQLITE | {fact: value})) == {name: CheckResult.FAILED}


@pytest.mark.parametrize("sign", [1, -1])
def test_clocks_that_differ_are_a_warning_and_then_a_failure(sign: int) -> None:
    seconds = [0.9, 1.1, 61]
    verdicts = [clock_check(sign * timedelta(seconds=each)).verdict for each in seconds]
    assert verdicts == [CheckResult.OK, CheckResult.WARNING, CheckResult.FAILED]


def test_a_schema_that_is_behind_has_failed() -> None:
    assert schema_check(Status([1], [])).verdict is CheckResult.OK
    behind = schema_check(Status([1], ["0002 streams"]))
    assert (behind.verdict, behind.remedy) == (CheckResult.FAILED, "run `duly migrate up`")


def test_a_store_without_workers_is_a_warning() -> None:
    assert problems(worker_checks([])) == {"workers": CheckResult.WARNING}


def by_name(document: Any) -> dict[str, str]:
    return {each["name"]: each["verdict"] for each in document["checks"]}


def test_a_healthy_store_passes(home: Home) -> None:
    with home.serving():
        document = home.json("doctor")
    assert document["ok"] is True
    assert set(by_name(document).values()) == {"ok"}
    assert {"duly", "python", "apsw", "asyncpg", "tzdata", "schema"} <= set(by_name(document))


def test_dead_workers_that_still_hold_work_are_a_warning() -> None:
    dead = Worker(
        id=1,
        name="here:7",
        namespace="default",
        started_at=LONG_AGO,
        beat_at=LONG_AGO,
        lease=12.0,
        concurrency=100,
        handlers=[],
        namespaces=["*"],
        version="0.1.0",
        holding=3,
    )
    assert set(problems(worker_checks([dead]))) == {"workers", "dead workers"}
    assert problems(worker_checks([msgspec.structs.replace(dead, alive=True)])) == {}


async def test_a_server_without_fsync_is_refused(sqlite_home: Home) -> None:
    with Server(settings={"fsync": "off"}) as server:
        url = await server.create_database("duly_doctor")
        done = sqlite_home.duly("doctor", database=url)
    assert done.returncode == 1
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("fsync")]
    assert "failed" in line
    assert "set fsync = on" in line


async def test_a_schema_newer_than_the_doctor_has_failed(sqlite_home: Home) -> None:
    async with sqlite_home.app():
        pass
    await sqlite_home.execute("insert into duly.migrations (number, name) values (99, 'later')")
    done = sqlite_home.duly("doctor")
    assert done.returncode == 1
    assert "schema 99" in done.stdout
