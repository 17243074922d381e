"""A store with one of everything, and two alike of everything that commands change."""

from datetime import date, timedelta
from typing import Any

import duly
from duly import App, Delivery
from duly.domain.monitoring.alerts import AlertCause
from duly.domain.schedules.origin import Origin
from duly.records.alert import AlertKind
from duly.testing import run_until_idle
from tests.surfaces.processes import Home

DAY = 86400
HERE = "127.0.0.1"
HOOK = f"http://{HERE}:9/hook"
"""No server listens there, so an attempt fails at once."""
MANY = 210
"""More than one page of the API."""
SIDES = ("north", "south")
Alike = dict[str, list[str]]


async def fill_store(home: Home) -> Alike:
    """Fill the store; returns the names of the records that exist once for each side."""
    app = App(home.database, egress_allow=HERE, environment={})
    app.expect("log", "gone")
    async with app:
        await _add_dead_letters(app)
        await _add_streams(app)
        await _add_endpoints(app)
        await _add_schedules(app)
        # A server would raise it ten seconds later, between two questions of a test.
        await app.store.alerts.raise_one(AlertCause(AlertKind.DEAD_LETTERS, "", "many died"))
        return {
            "side": list(SIDES),
            "pending": await _one_for_each_side(app, "log", tags=["red"], after=DAY),
            "dead": await _dead_letter_ids(app, "first"),
            "spoiled": await _dead_letter_ids(app, "second"),
            "spent": await _dead_letter_ids(app, "third"),
            "line": _named("line"),
            "queue": _named("queue"),
            "hook": _named("hook"),
            "failing": _named("failing"),
            "some": _named("some"),
            "more": _named("more"),
            "batch": [await _add_batch(app, side) for side in SIDES],
            "key": await _add_keys(app),
        }


def _named(word: str) -> list[str]:
    return [f"{word}-{side}" for side in SIDES]


async def _one_for_each_side(app: App, target: str, **options: Any) -> list[str]:
    return [(await app.deliver(target, {"n": 1}, **options)).id for _ in SIDES]


async def _add_dead_letters(app: App) -> None:
    """Dead letters of several kinds, some by a handler that fails after a recorded step."""

    @app.handler("fails", retry=duly.no_retry)
    async def fails(delivery: Delivery[Any]) -> None:
        await delivery.do("charge", lambda: {"receipt": 7})
        raise ValueError(f"no {delivery.payload}")

    @app.handler("refuses", retry=duly.delays(DAY))
    async def refuses(delivery: Delivery[Any]) -> None:
        raise duly.Fail("not today", reason="dependency_failure")

    for side in SIDES:
        for word in ("first", "second", "third", "some", "some", "some", "more", "more"):
            await app.deliver("fails", word, tags=[f"{word}-{side}"])
    await app.deliver("refuses", {"deep": [1, 2.50, {"a": None}]})
    await run_until_idle(app)


async def _dead_letter_ids(app: App, word: str) -> list[str]:
    return [(await app.list(tag=name))[0].id for name in _named(word)]


async def _add_streams(app: App) -> None:
    """Streams that are blocked, waiting or paused."""

    @app.handler("halts")
    async def halts(delivery: Delivery[Any]) -> None:
        raise duly.ValidationFailure("its bank refused")

    for name in _named("line"):
        for number in range(3):
            await app.deliver("halts", number, stream=name)
    await run_until_idle(app)
    for name in _named("queue"):
        for number in range(2):
            await app.deliver("log", number, stream=name, after=DAY)
    await app.deliver("log", stream="paused", after=DAY)
    await app.streams.pause("paused", "over the holidays")


async def _add_batch(app: App, name: str) -> str:
    """An open batch with members that wait."""
    batch = await app.batches.open(("log", {"month": 11}), name=name)
    await app.deliver_many([{"target": "log", "payload": 1, "after": DAY}] * 2, batch=batch.id)
    return batch.id


async def _add_endpoints(app: App) -> None:
    """Endpoints with deliveries that wait for them, and deliveries without a handler."""
    for name in (*_named("hook"), *_named("failing"), "shut"):
        headers = {"X-Api-Key": "hush", "X-Team": "7"}
        await app.endpoints.add(
            name,
            HOOK,
            headers=headers,
            rate=5,
            limits=duly.per("customer", in_flight=2),
            description="a hook",
        )
    await app.endpoints.pause("shut", "it moves")
    await app.endpoints.rotate("shut", overlap=timedelta(days=1))
    for name in (*_named("hook"), "shut"):
        await app.deliver(duly.endpoint(name), {"to": "them"}, after=DAY)
    await app.deliver(duly.webhook(HOOK, headers={"X-Api-Key": "hush"}), 1, after=DAY)
    for name in _named("failing"):
        await app.deliver(duly.endpoint(name), 1, retry=duly.no_retry, limit_key="customer:7")
    await run_until_idle(app)
    await app.deliver_many(("gone", number) for number in range(MANY))
    await app.deliver("gone", {"who": "serves me"}, tags=["late"])


async def _add_schedules(app: App) -> None:
    target = duly.webhook(HOOK, method="PUT", headers={"X-Api-Key": "hush"}, timeout=5)
    retry = duly.exponential(base=2).on("timeout_exceeded", duly.delays(1, 2))
    await app.schedule("cron", duly.cron("0 9 * * MON", tz="Europe/Oslo"), "log", {"team": 7})
    await app.schedule("every", duly.every(1234.567), target, retry=retry, jitter=60.0)
    await app.schedule("leap", duly.yearly(2, 29, tz="Asia/Kathmandu", feb29="mar1"), "log")
    await app.schedule(
        "once",
        duly.at("2096-11-16T09:00", tz="Europe/Oslo"),
        duly.endpoint("shut"),
        stream="s",
        tags=["a", "b"],
        window="6h",
        max_runs=3,
    )
    await app.calendars.set("nrw", {date(2096, 12, 25): "Christmas"})
    ninth = duly.except_(duly.cron("0 9 9 * *", tz="Europe/Oslo"), "nrw", "next")
    await app.schedule("ninth", ninth, "log")
    await app.schedules.pause("cron", "it snows")
    origin = Origin("shop", "shop.send_left")
    await app.schedules.declare_in_code(origin, "left", duly.cron("0 9 * * TUE"), "log")
    await app.store.declarations.leave("shop", ["left"])


async def _add_keys(app: App) -> list[str]:
    return [(await app.keys.create(f"of {side}", scope="operate")).id for side in SIDES]
