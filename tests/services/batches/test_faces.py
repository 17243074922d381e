"""Batches without async and through handlers."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import duly
from duly import Conflict
from duly.testing import run_until_idle

pytestmark = pytest.mark.requirement("P8", "S1")


def test_a_block_without_async(database_url: str) -> None:
    app = duly.App(database_url, environment={})
    seen: list[duly.BatchOutcome] = []

    @app.handler("page")
    def page(n: int) -> None:
        pass

    @app.handler("ready")
    def ready(batch: duly.BatchOutcome) -> None:
        seen.append(batch)

    with app.sync:
        with app.sync.batch(then=ready, name="pages") as batch:
            batch.deliver("page", {"n": 1})
            batch.deliver_many([("page", {"n": each}) for each in range(2)])
            page.using(batch=batch.id).sync.deliver(5)
            app.sync.deliver_many([page.item(6)], batch=batch.id)
            app.sync.batches.deliver(batch.id, "page", {"n": 7})
            assert batch.get().members == 6
        with pytest.raises(Conflict, match="closed"):
            batch.deliver("page", {"n": 1})
        assert app.sync.batches.get(batch.id).state == "closed"
        other = app.sync.batches.open(then="ready")
        assert app.sync.batches.cancel(other.id).state == "cancelled"
        with (
            contextlib.suppress(ZeroDivisionError),
            app.sync.batch(then=ready) as half,
        ):
            _ = 1 / 0
        assert app.sync.batches.get(half.id).state == "open"
        assert [each.id for each in app.sync.batches.list("open")] == [half.id]
    asyncio.run(run_until_idle(app))
    assert [each.completed for each in seen] == [6]
