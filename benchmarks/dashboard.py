"""How fast the dashboard's pages are on a large store, what they transfer, and what they cost.

python -m benchmarks.dashboard [--kind sqlite] [--completed 900000] [--dead 100000]
"""

import argparse
import asyncio
import http.client
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import urlsplit

import asyncpg
import uvloop
from playwright.async_api import Browser, Page, Request, Response, async_playwright

import duly
from benchmarks.places import folder, fresh, server
from tests.support.chromium import find_chromium
from tests.surfaces.processes import Home, Running

SCHEDULES = 5000
STREAMS = 200
DASHBOARDS = 5
WINDOW_SECONDS = 12.0
FASTEST = 16_000
"""Deliveries a second that no drain exceeds, so that it does not run out of them."""
EVENT_SECONDS = 10.0
PAGES = {
    "overview": "main .figure",
    "deliveries": "main tbody tr",
    "deliveries?state=dead": "main tbody tr",
    "deliveries?q=target:fails%2017": "main tbody tr",
    "dead_letters": "main tbody tr, main .group",
    "schedules": "main tbody tr",
    "schedules?q=499": "main tbody tr",
    "streams": "main tbody tr",
    "endpoints": "main tbody tr",
    "workers": "main tbody tr",
    "settings": "main h2",
}
"""Each page, and what it has as soon as one can work with it."""
APP = """
import duly

app = duly.App()


@app.handler("works")
async def works(delivery):
    pass


@app.handler("fails", retry=duly.no_retry)
async def fails(delivery):
    raise ValueError("no such order")
"""


async def fill(database: str, completed: int, dead: int) -> None:
    """Deliveries that ran, dead letters, streams, endpoints and schedules."""
    app = duly.App(database, concurrency=2000, environment={})

    @app.handler("works")
    async def works(_: duly.Delivery[object]) -> None:
        pass

    @app.handler("fails", retry=duly.no_retry)
    async def fails(_: duly.Delivery[object]) -> None:
        raise ValueError("no such order")

    async with app:
        for number in range(20):
            await app.endpoints.add(f"shop-{number}", "https://example.org/hook")
        cron = duly.cron("0 9 * * *")
        await app.schedules.create_many(
            (f"report-{number}", cron, "works", {"report": number}, {})
            for number in range(SCHEDULES)
        )
        await app.deliver_many(("works", {"order": n}) for n in range(completed))
        await app.deliver_many(("fails", {"order": n}) for n in range(dead))
        later = datetime.now(UTC) + timedelta(days=1)
        await app.deliver_many(
            {"target": "works", "payload": n, "stream": f"customer-{n % STREAMS}", "at": later}
            for n in range(STREAMS * 5)
        )
        await _drain(app, completed + dead)


async def _drain(app: duly.App, count: int) -> None:
    running = asyncio.create_task(app.run())
    counts = app.telemetry.counts
    while counts["completed"] + counts["dead"] < count:
        await asyncio.sleep(2)
        print(f"  filled {counts['completed'] + counts['dead']:,} of {count:,}", end="\r")
    print()
    app.stop()
    await running


@contextmanager
def serving(place: Path, database: str) -> Iterator[Running]:
    """`duly serve` on the store."""
    (place / "bench_app.py").write_text(APP)
    with Home(place, database).serving("bench_app:app") as running:
        yield running


@asynccontextmanager
async def browsing(place: Path) -> AsyncIterator[Browser]:
    """A browser without a window; of the CPU it gets what the server leaves, as if elsewhere."""
    program = place / "browser"
    program.write_text(f'#!/bin/sh\nexec nice -n 19 {find_chromium()} "$@"\n')
    program.chmod(0o755)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        await browser.close()


class Transferred:
    """Bytes that a page has received, headers included."""

    def __init__(self, page: Page) -> None:
        self._responses: list[Response] = []
        page.on("response", lambda each: self._responses.append(each))

    async def total(self) -> int:
        sizes = [await each.request.sizes() for each in self._responses]
        return sum(each["responseBodySize"] + each["responseHeadersSize"] for each in sizes)


async def open_page(browser: Browser, url: str, place: str, shows: str) -> tuple[float, int]:
    """Seconds until one can work with a page, in a new profile, and the bytes it received."""
    context = await browser.new_context()
    page = await context.new_page()
    transferred = Transferred(page)
    await page.goto(f"{url}/#/{place}")
    await page.wait_for_selector(shows, timeout=60_000)
    seconds = await page.evaluate("performance.now() / 1000")
    received = await transferred.total()
    await context.close()
    return seconds, received


def event_rate(url: str) -> float:
    """Bytes a second of the event stream."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=EVENT_SECONDS)
    connection.request("GET", "/v1/events")
    response = connection.getresponse()
    begun, received = time.monotonic(), 0
    while time.monotonic() - begun < EVENT_SECONDS:
        received += len(response.read1(65536))
    connection.close()
    return received / EVENT_SECONDS


async def look_at_pages(url: str, place: Path, rounds: int) -> None:
    """Print the time and the bytes of each page, the slowest of some rounds."""
    async with browsing(place) as browser:
        for page, shows in PAGES.items():
            found = [await open_page(browser, url, page, shows) for _ in range(rounds)]
            slowest, received = max(each[0] for each in found), found[0][1]
            print(f"  {page:<34} {slowest * 1000:5.0f} ms  {received / 1000:4.0f} kB")
    print(f"  event stream: {event_rate(url):.0f} bytes a second")


class Watching(NamedTuple):
    """A request of a dashboard: how long after the first, and what it asks for."""

    after: float
    path: str


async def record(browser: Browser, url: str) -> list[Watching]:
    """What five open dashboards ask for: the overview, or the deliveries."""
    found: list[Watching] = []
    contexts = [await browser.new_context() for _ in range(DASHBOARDS)]
    for number, context in enumerate(contexts):
        page = await context.new_page()
        await page.goto(f"{url}/#/{('overview', 'deliveries')[number % 2]}")
        await page.wait_for_selector("main .figure, main tbody tr")
    begun = time.monotonic()

    def note(request: Request) -> None:
        if "/v1/" in request.url and "/v1/events" not in request.url:
            found.append(Watching(time.monotonic() - begun, request.url.removeprefix(url)))

    for context in contexts:
        context.on("request", note)
    await asyncio.sleep(WINDOW_SECONDS)
    for context in contexts:
        await context.close()
    return found


def read(url: str, path: str, seconds: float) -> None:
    """Ask as a browser does, and read the answer, at most for some seconds."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request("GET", path, headers={"Accept-Encoding": "gzip, deflate, br, zstd"})
    response, until = connection.getresponse(), time.monotonic() + seconds
    while response.read1(65536) and time.monotonic() < until:
        pass
    connection.close()


@asynccontextmanager
async def watched(url: str, requests: list[Watching]) -> AsyncIterator[None]:
    """Ask for the same at the same times, with as many streams of events."""

    async def ask(each: Watching) -> None:
        await asyncio.sleep(each.after)
        await asyncio.to_thread(read, url, each.path, 60)

    events = (asyncio.to_thread(read, url, "/v1/events", WINDOW_SECONDS) for _ in range(DASHBOARDS))
    tasks = [asyncio.create_task(each) for each in (*events, *map(ask, requests))]
    yield
    await asyncio.gather(*tasks)


async def completed_in(client: duly.Client, seconds: float) -> float:
    """Deliveries a second that end within some seconds; 0 if it ran out of them."""
    before, begun = await client.stats.overview(), time.monotonic()
    await asyncio.sleep(seconds)
    after, took = await client.stats.overview(), time.monotonic() - begun
    if not after.now.due:
        return 0.0
    return (after.last_hour.completed - before.last_hour.completed) / took


async def compare_drains(kind: str, place: Path, postgres: object, pairs: int) -> None:
    """Print the drain rate with open dashboards as a share of that without.

    All is one drain of one server, with dashboards and without them in turn: two servers on the
    same machine differ by more than dashboards cost. The requests of five dashboards in a browser
    are recorded and repeated, so that the browser itself does not compete for the two cores.
    """
    database = await fresh(kind, postgres, place)  # type: ignore[arg-type]
    async with duly.App(database, environment={}) as app:
        app.expect("works")
        wanted = int((pairs + 1) * 2 * WINDOW_SECONDS * FASTEST)
        await app.deliver_many(("works", n) for n in range(wanted))
    if kind == "postgresql":
        await rest(database)
    with serving(place, database) as running:
        async with browsing(place) as browser:
            requests = await record(browser, running.url)
        print(
            f"  {len(requests) / WINDOW_SECONDS:.1f} requests a second of {DASHBOARDS} dashboards"
        )
        async with duly.Client(running.url) as client:
            shares = [await compare_pair(client, running.url, requests) for _ in range(pairs)]
    found = sorted(each for each in shares if each)
    print(f"  with {DASHBOARDS} dashboards {median(found):.1%} of the rate without (wanted: 95%)")
    print(f"  {len(found)} pairs, from {found[0]:.0%} to {found[-1]:.0%}")


async def rest(database: str) -> None:
    """What PostgreSQL does by itself within minutes after so many writes."""
    connection = await asyncpg.connect(database)
    await connection.execute("vacuum analyze duly.agenda")
    await connection.execute("vacuum analyze duly.deliveries")
    await connection.execute("checkpoint")
    await connection.close()


async def compare_pair(client: duly.Client, url: str, requests: list[Watching]) -> float:
    """The rate with dashboards as a share of that before and after them."""
    before = await completed_in(client, WINDOW_SECONDS / 2)
    async with watched(url, requests):
        during = await completed_in(client, WINDOW_SECONDS)
    after = await completed_in(client, WINDOW_SECONDS / 2)
    if not after:
        return 0.0
    without = (before + after) / 2
    print(f"  {during:,.0f} a second, {without:,.0f} without dashboards: {during / without:.0%}")
    return during / without


async def main(kind: str, completed: int, dead: int, rounds: int, pairs: int) -> None:
    """Fill a store, open each page, and drain with and without dashboards."""
    with server() as postgres, folder() as place:
        print(f"{kind}: {completed:,} completed, {dead:,} dead, {SCHEDULES:,} schedules")
        if completed + dead:
            url = await fresh(kind, postgres, place)
            await fill(url, completed, dead)
            with serving(place, url) as running:
                await look_at_pages(running.url, place, rounds)
        await compare_drains(kind, place, postgres, pairs)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kind", choices=("sqlite", "postgresql"), default="sqlite")
    arguments.add_argument("--completed", type=int, default=900_000)
    arguments.add_argument("--dead", type=int, default=100_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--pairs", type=int, default=5)
    given = arguments.parse_args()
    logging.getLogger("duly").setLevel(logging.CRITICAL)
    uvloop.install()
    asyncio.run(main(**vars(given)))
