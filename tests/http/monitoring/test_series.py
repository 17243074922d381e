"""Counts over time, of everything and of one target or schedule, over HTTP."""

from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App, every
from duly.testing import VirtualClock
from tests.http.conftest import Client
from tests.http.deliveries.test_operations import step
from tests.services.conftest import record_payloads

pytestmark = pytest.mark.requirement("F11", "S3")


async def total(client: Client, **query: Any) -> dict[str, int]:
    answer = await client.get("/v1/stats/series", params=query)
    assert answer.status_code == 200, answer.text
    points = answer.json()["points"]
    return {name: sum(each[name] for each in points) for name in ("completed", "failed", "dead")}


async def test_outcomes_are_counted_by_target_and_by_schedule(
    app: App, client: Client, clock: VirtualClock
) -> None:
    record_payloads(app)

    @app.handler("fails", retry=duly.no_retry)
    async def fails(delivery: Any) -> None:
        raise ValueError("no")

    await app.deliver("work")
    await app.deliver("fails")
    await app.schedule("hourly", every("1h"), "work")
    await step(app)
    clock.advance(timedelta(hours=1))
    await step(app)
    await app.rollup_writer.tick()
    span = {"span": 7200}
    assert await total(client, **span) == {"completed": 2, "failed": 1, "dead": 1}
    assert await total(client, **span, target="work") == {"completed": 2, "failed": 0, "dead": 0}
    assert await total(client, **span, target="fails") == {"completed": 0, "failed": 1, "dead": 1}
    assert await total(client, **span, schedule="hourly") == {
        "completed": 1,
        "failed": 0,
        "dead": 0,
    }


async def test_points_have_percentiles_where_something_ran(app: App, client: Client) -> None:
    record_payloads(app)
    await app.deliver("work")
    await step(app)
    await app.rollup_writer.tick()
    points = (await client.get("/v1/stats/series")).json()["points"]
    assert points[0]["run"] is None
    for name in ("lateness", "pickup", "run"):
        found = points[-1][name]
        assert 0 <= found["p50"] <= found["p95"] <= found["p99"], name


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"target": "a", "schedule": "b"}, "schedule"),
        ({"target": ""}, "target"),
        ({"schedule": ""}, "schedule"),
        ({"step": 59}, "step"),
    ],
)
async def test_a_bad_series_is_refused_by_its_field(
    small_client: Client, query: dict[str, Any], field: str
) -> None:
    refused = await small_client.get("/v1/stats/series", params=query)
    assert (refused.status_code, refused.json()["field"]) == (422, field), refused.text
