"""The page about the metrics, from a scrape of a server that has just started."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from prometheus_client.metrics_core import Metric

from duly.app import App
from duly.surfaces.http.monitoring.metrics import ProcessMetrics, Scrape, metrics_sample
from reference.tables import row

INTRODUCTION = """# Metrics

`GET /metrics` returns these in Prometheus' text format.
[Metrics, health, alerts and logs](../observability.md) explains how to scrape several servers.

| metric | type | meaning |
|---|---|---|
"""


def page() -> str:
    """All metrics with their types."""
    found = sorted(asyncio.run(_scraped()), key=lambda each: each.name)
    return INTRODUCTION + "".join(map(_row, found))


async def _scraped() -> list[Metric]:
    with TemporaryDirectory() as folder:
        app = App(f"sqlite:///{Path(folder)}/duly.db", environment={})
        async with app:
            families = ProcessMetrics(app, app.engine()).families()
            return list(Scrape(families, await metrics_sample(app)).collect())


def _row(metric: Metric) -> str:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    return row(f"`{name}`", metric.type, metric.documentation)
