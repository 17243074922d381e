"""A handler's own errors spend attempts; an unavailable store spends none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.errors import SchemaMismatch
from duly.testing import VirtualClock, run_until_idle
from tests.engine.cluster import Cluster, only_delivery


def move(before: Path, after: Path) -> None:
    """Rename a file."""
    before.rename(after)


def open_files() -> list[str]:
    """The files that this process has open."""
    links = Path("/proc/self/fd").iterdir()
    return [str(each.resolve()) for each in links if each.exists()]


@pytest.mark.requirement("F1", "V1")
@pytest.mark.parametrize("error", [FileNotFoundError, ConnectionResetError, TimeoutError])
async def test_an_error_of_a_generator_of_deliveries_is_the_callers(
    any_cluster: Cluster, error: type[Exception]
) -> None:
    app = any_cluster.app()

    def failing() -> Iterator[tuple[str, Any]]:
        yield ("work", None)
        raise error("the caller failed")

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        await app.deliver_many(failing())

    async with app:
        with pytest.raises(error, match="the caller failed"):
            await app.deliver_many(failing())
        await app.deliver("work")
        await run_until_idle(app)
        found = await only_delivery(app)
    assert (found.state, found.attempt) == ("dead", 1)
    assert "the caller failed" in (found.error or "")


@pytest.mark.requirement("D14", "V1")
@pytest.mark.parametrize("operation", ["deliver", "read", "transaction"])
async def test_a_file_that_is_missing_for_a_moment_spends_no_attempt(
    sqlite_url: str, tmp_path: Path, operation: str
) -> None:
    app = App(sqlite_url, clock=VirtualClock(), environment={})
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    calls: list[int] = []

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        calls.append(delivery.attempt)
        if len(calls) > 1:
            return
        move(path, tmp_path / "moved")
        try:
            if operation == "deliver":
                await app.deliver("work")
            elif operation == "read":
                await app.get(delivery.id)
            else:
                await delivery.transaction.execute("select 1")
        finally:
            move(tmp_path / "moved", path)

    async with app:
        await app.deliver("work")
        await run_until_idle(app, within=10)
        found = await only_delivery(app)
    assert (found.state, calls) == ("completed", [1, 1])


@pytest.mark.requirement("F1")
async def test_using_another_app_that_is_not_open_is_the_handlers_error(sqlite_url: str) -> None:
    app, other = (App(sqlite_url, clock=VirtualClock(), environment={}) for _ in range(2))

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        await other.get(delivery.id)

    async with app:
        await app.deliver("work")
        await run_until_idle(app)
        found = await only_delivery(app)
    assert (found.state, found.reason) == ("dead", "dependency_failure")


@pytest.mark.requirement("D14")
async def test_a_store_that_could_not_be_opened_is_closed(sqlite_url: str) -> None:
    path = sqlite_url.removeprefix("sqlite:///")
    async with App(sqlite_url, environment={}) as app, app.transaction() as tx:
        await tx.execute("insert into duly_migrations (number, name) values (99, 'later')")
    with pytest.raises(SchemaMismatch):
        await App(sqlite_url, environment={}).open()
    assert [each for each in open_files() if each.startswith(path)] == []
