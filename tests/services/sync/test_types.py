"""A user's synchronous program, as type checkers see it."""

from pathlib import Path

import pytest

from tests.support.type_checkers import (
    assert_mypy_refuses_only_wrong_lines,
    assert_pyright_refuses_only_wrong_lines,
)

pytestmark = pytest.mark.requirement("P2")

PROGRAM = """
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, assert_type

import duly
from duly.records.dead_letter import BulkProgress
from duly.records.schedule import DeclaredSchedule, Schedule
from duly.sync.handles import SyncHandle

app = duly.App()
client = duly.Client("http://127.0.0.1:8787")


@app.handler
async def weekly(team: int, since: date, *, dry_run: bool = False) -> str:
    return f"{team} since {since}"


@app.handler("charge")
def charge(delivery: duly.Delivery, order: int) -> None:
    app.sync.deliver("weekly", {"team": 7}, connection=delivery.transaction)


def right() -> None:
    assert_type(app.sync.deliver("weekly", {"team": 7}, after=30, key="k"), SyncHandle[Any])
    assert_type(app.sync.deliver_many([("weekly", 1)]), Sequence[duly.Accepted])
    assert_type(app.sync.deliveries.get("id"), duly.DeliveryRecord)
    assert_type(app.sync.get("id"), duly.DeliveryRecord)
    assert_type(app.sync.list(target=weekly, limit=10), Sequence[duly.DeliveryRecord])
    assert_type(app.sync.schedules.pause("monday"), Schedule)
    assert_type(app.sync.schedule("m", duly.every("1d"), weekly, cap=3), DeclaredSchedule)
    assert_type(app.sync.deliveries.cancel_all(target="weekly"), Iterator[BulkProgress])
    handle = weekly.sync.deliver(7, since=date(2026, 11, 1))
    assert_type(handle, SyncHandle[str])
    assert_type(handle.result(timeout=5), str)
    assert_type(weekly.using(after=30).sync.deliver(7, date(2026, 11, 1)), SyncHandle[str])
    accepted: duly.Accepted = handle
    print(accepted)
    charge.sync.deliver(12)
    weekly.sync.deliver_many(weekly.item(n, date(2026, 11, 1)) for n in (1, 2))
    assert_type(client.sync.schedules.pause("monday"), Schedule)
    assert_type(client.sync.deliver("weekly", after=30), SyncHandle[Any])
    with app.sync.transaction() as tx, app.sync as opened, client.sync:
        assert_type(tx.fetch("select 1"), list[tuple[Any, ...]])
        opened.deliver("weekly", connection=tx)
    with app.sync.receive("1", "billing") as message:
        assert_type(message.is_new, bool)


def wrong() -> None:
    app.sync.deliver()  # wrong
    app.sync.deliver("weekly", afer=30)  # wrong
    app.sync.deliver("weekly", after="soon")  # wrong
    app.sync.deliveries.get(7)  # wrong
    app.sync.list(limt=10)  # wrong
    app.sync.schedules.pause()  # wrong
    app.sync.schedules.paus("monday")  # wrong
    app.sync.deliveries.cancel_all(targt="weekly")  # wrong
    weekly.sync.deliver("7", since=date(2026, 11, 1))  # wrong
    weekly.sync.deliver(7)  # wrong
    weekly.using(after=30).sync.deliver()  # wrong
    charge.sync.deliver()  # wrong
    client.sync.deliver("weekly", afer=30)  # wrong
    client.sync.schedules.pause(7)  # wrong


async def awaited() -> None:
    await app.sync.deliver("weekly")  # wrong
"""


@pytest.mark.long
def test_mypy_accepts_right_calls_and_refuses_wrong_ones(tmp_path: Path) -> None:
    assert_mypy_refuses_only_wrong_lines(PROGRAM, tmp_path)


@pytest.mark.clients
def test_pyright_accepts_right_calls_and_refuses_wrong_ones(tmp_path: Path) -> None:
    assert_pyright_refuses_only_wrong_lines(PROGRAM, tmp_path)
