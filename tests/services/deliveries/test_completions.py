"""The log line of each completion: at debug, and for completions only."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.testing import run_until_idle


@pytest.mark.requirement("S3")
async def test_a_failed_attempt_logs_no_completion(
    small_app: App, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "duly")

    @small_app.handler("work", retry=duly.delays(1))
    async def work(delivery: Delivery[Any]) -> None:
        if delivery.attempt == 1:
            raise duly.Retry("not yet")

    id = (await small_app.deliver("work")).id
    await run_until_idle(small_app, within=60)
    logged = [
        (each.facts["delivery"], each.facts["attempt"])  # type: ignore[attr-defined]
        for each in caplog.records
        if getattr(each, "event", None) == "DeliveryCompleted"
    ]
    assert logged == [(id, 2)]
