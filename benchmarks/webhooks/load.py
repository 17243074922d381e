"""The load: a backlog, or a constant rate to many endpoints."""

import asyncio
import itertools
import time
from typing import Any

import duly
from duly.records.target import Target

SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SETTINGS: dict[str, Any] = {"egress_allow": "127.0.0.0/8", "webhook_secret": SECRET}
STEP_SECONDS = 0.01
PAYLOAD = {"type": "invoice.paid", "data": {"invoice": 4711, "amount": "99.00", "currency": "EUR"}}


async def fill(database: str, target: Target, count: int) -> None:
    """Store a backlog for one target."""
    async with duly.App(database, **SETTINGS) as app:
        await app.deliver_many((target, PAYLOAD) for _ in range(count))


async def add_endpoints(database: str, urls: dict[str, str], **details: Any) -> None:
    """Add named endpoints."""
    async with duly.App(database, **SETTINGS) as app:
        for name, url in urls.items():
            await app.endpoints.add(name, url, secret=SECRET, **details)


def target_of(text: str) -> Target:
    """A target from its URL or its endpoint's name."""
    return duly.webhook(text) if text.startswith("http") else duly.endpoint(text)


async def produce(app: duly.App, targets: list[str], rate: float, seconds: float) -> int:
    """Accept `rate` deliveries a second for each target, spread evenly; returns how many.

    The payload is the time of the request.
    """
    parsed = [target_of(each) for each in targets]
    turns = itertools.cycle(parsed)
    per_second, begun, made = rate * len(targets), time.perf_counter(), 0
    while (past := time.perf_counter() - begun) < seconds:
        due = int(past * per_second) - made
        if due > 0:
            made += due
            await app.deliver_many((next(turns), time.time()) for _ in range(due))
        await asyncio.sleep(STEP_SECONDS)
    return made
