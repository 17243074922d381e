"""Migrations: all or nothing, once, and never backwards."""

import asyncio

import pytest

from duly.errors import BadSetting, SchemaMismatch
from duly.failpoints import FailpointRaised, arm
from duly.stores import migrations
from duly.stores.postgres.database import Postgres
from duly.stores.store import SqlStore, store_at
from duly.testing import VirtualClock
from tests.stores.store_probe import StoreProbe


def store(url: str) -> SqlStore:
    return store_at(url, namespace="default", clock=VirtualClock())


async def tables(found: SqlStore) -> set[str]:
    """The tables that the database has."""
    if isinstance(found.database, Postgres):
        text = "select table_name as name from information_schema.tables where table_schema='duly'"
    else:
        text = "select name from sqlite_master where name like 'duly%'"
    return {row["name"] for row in await StoreProbe(found, VirtualClock()).sql(text)}


async def test_a_new_store_is_migrated_once(empty_database_url: str) -> None:
    found = store(empty_database_url)
    try:
        await found.open()
        steps = (await migrations.status(found.database)).applied
        assert steps == sorted(set(steps))
        assert steps
        assert (await migrations.status(found.database)).current
        assert await migrations.migrate(found.database) == []
        await found.open()
        assert (await migrations.status(found.database)).applied == steps
    finally:
        await found.close()


async def test_concurrent_migrations_are_applied_once(empty_database_url: str) -> None:
    stores = [store(empty_database_url) for _ in range(4)]
    try:
        await asyncio.gather(*(each.open() for each in stores))
        probe = StoreProbe(stores[0], VirtualClock())
        applied = await probe.sql("select number from duly.migrations order by number")
        numbers = [row["number"] for row in applied]
        assert numbers == sorted(set(numbers))
        await asyncio.gather(*(StoreProbe(each, VirtualClock()).worker() for each in stores))
        assert await probe.count("workers") == 4
    finally:
        for each in stores:
            await each.close()


async def test_a_store_of_a_newer_duly_is_refused(empty_database_url: str) -> None:
    found = store(empty_database_url)
    try:
        await found.open()
        await StoreProbe(found, VirtualClock()).sql(
            "insert into duly.migrations (number, name) values (9999, 'newer')"
        )
        for migrate in (True, False):
            with pytest.raises(SchemaMismatch, match=r"schema 9999 .* newer version"):
                await found.open(migrate=migrate)
    finally:
        await found.close()


async def test_an_outdated_store_is_refused_unless_migrating(empty_database_url: str) -> None:
    found = store(empty_database_url)
    try:
        with pytest.raises(SchemaMismatch, match="duly migrate up"):
            await found.open(migrate=False)
        assert await tables(found) == set()
        await found.open()
        await found.open(migrate=False)
    finally:
        await found.close()


@pytest.mark.requirement("D3")
async def test_a_failure_in_the_middle_leaves_no_tables(empty_database_url: str) -> None:
    found = store(empty_database_url)
    try:
        arm("migrate.middle=raise")
        with pytest.raises(FailpointRaised):
            await found.open()
        assert await tables(found) == set()
        arm("")
        await found.open()
        assert (await migrations.status(found.database)).current
    finally:
        await found.close()


@pytest.mark.parametrize(
    "url",
    ["mysql://host/db", "duly.db", "", "sqlite:", "sqlite:///", "sqlite://duly.db", "file:///x"],
)
def test_a_url_without_a_store_is_refused(url: str) -> None:
    with pytest.raises(BadSetting, match=r"sqlite:///") as refused:
        store(url)
    assert refused.value.field == "database"
