"""A store with something to see on every page of the dashboard."""

from datetime import date, timedelta
from typing import Any

import duly
from duly import App, Delivery
from duly.testing import run_until_idle
from tests.surfaces.processes import Home

DAY = 86400
HERE = "127.0.0.1"
HOOK = f"http://{HERE}:9/hook"
"""No server listens there, so an attempt fails at once."""
HANDLERS = '''
"""The handlers of the server that the dashboard is tested with."""

import asyncio

import duly

app = duly.App()


@app.handler("works")
async def works(delivery):
    pass


@app.handler("fails", retry=duly.no_retry)
async def fails(delivery):
    raise ValueError(f"no {delivery.payload}")


@app.handler("later", retry=duly.delays(86400, 86400))
async def later(delivery):
    raise ConnectionError("not yet")


@app.handler("runs")
async def runs(delivery):
    await asyncio.Event().wait()


@app.handler("reports")
async def reports(delivery: duly.Delivery):
    await delivery.progress(0.4, "page 4 of 10")
    await asyncio.Event().wait()


@app.handler("ignores", timeout=86400)
async def ignores(delivery):
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
'''


async def fill_store(home: Home) -> None:
    """Deliveries in all states, streams, endpoints, schedules and a key."""
    home.write("shop.py", HANDLERS)
    app = App(home.database, egress_allow=HERE, environment={})
    app.expect("runs")
    async with app:
        _add_handlers(app)
        for add in (_add_deliveries, _add_streams, _add_batch, _add_endpoints, _add_schedules):
            await add(app)
        await app.keys.create("of a friend", scope="read")


def _add_handlers(app: App) -> None:
    @app.handler("works")
    async def works(delivery: Delivery[Any]) -> Any:
        return await delivery.do("charge", lambda: {"receipt": 7})

    @app.handler("fails", retry=duly.no_retry)
    async def fails(delivery: Delivery[Any]) -> None:
        raise ValueError(f"no {delivery.payload}")

    @app.handler("later", retry=duly.delays(DAY, DAY))
    async def later(delivery: Delivery[Any]) -> None:
        raise ConnectionError("not yet")


async def _add_deliveries(app: App) -> None:
    for number in range(3):
        await app.deliver("works", {"number": number}, tags=["done"])
        await app.deliver("fails", {"number": number}, tags=["broken"])
    await app.deliver("later", {"try": "again"}, tags=["retrying"])
    cancelled = await app.deliver("works", after=DAY, tags=["cancelled"])
    await app.cancel(cancelled.id)
    await run_until_idle(app)
    await app.deliver("works", {"wait": True}, tags=["waiting"], after=DAY)
    await app.deliver("runs", tags=["running"])


async def _add_streams(app: App) -> None:
    for number in range(3):
        await app.deliver("fails", number, stream="blocked-line", on_failure="block")
    await run_until_idle(app)
    for number in range(2):
        await app.deliver("works", number, stream="open-line", after=DAY)
    await app.deliver("works", stream="paused-line", after=DAY)
    await app.streams.pause("paused-line", "over the holidays")


async def _add_batch(app: App) -> None:
    async with app.batch(then="works", name="november") as batch:
        await batch.deliver("works", 1)
        await batch.deliver("works", 2, after=DAY)
    await run_until_idle(app)


async def _add_endpoints(app: App) -> None:
    limits = duly.per("customer", in_flight=2)
    await app.endpoints.add("billing", HOOK, rate=5, limits=limits, description="the bookkeeper")
    await app.endpoints.add("quiet", HOOK)
    await app.endpoints.pause("quiet", "it moves")
    await app.endpoints.rotate("quiet", overlap=timedelta(days=1))
    await app.deliver(duly.endpoint("billing"), {"to": "them"}, after=DAY)


async def _add_schedules(app: App) -> None:
    monday = duly.cron("0 9 * * MON", tz="Europe/Oslo")
    await app.schedule("weekly-report", monday, "works", {"team": 7})
    await app.schedule("leap-day", duly.yearly(2, 29, tz="Asia/Kathmandu", feb29="mar1"), "works")
    await app.schedule("resting", duly.every("1h"), "works")
    await app.schedules.pause("resting", "it snows")
    await app.calendars.set("nrw", {date(2096, 12, 25): "Christmas"})
