"""Reads what a view shows, from a store or through a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from duly.records.dead_letter import DeadLetterFilter
from duly.records.delivery import Delivery
from duly.records.page import Page
from duly.records.stats import Series
from duly.records.status import BacklogStatus, Overview, Top
from duly.records.stream import Stream, StreamState
from duly.surfaces.cli.deliveries.commands import shown as delivery_text
from duly.surfaces.cli.endpoints.describe import shown as endpoint_text
from duly.surfaces.cli.schedules.commands import SHOWN_MOMENTS
from duly.surfaces.cli.schedules.commands import shown as schedule_text
from duly.surfaces.cli.streams import shown as stream_text
from duly.surfaces.cli.terminal.flags import Backend
from duly.surfaces.cli.terminal.output import cell, counted
from duly.surfaces.cli.terminal.times import spelled
from duly.surfaces.cli.top import rows
from duly.surfaces.cli.top.attention import concerns
from duly.surfaces.cli.top.content import Content, Row
from duly.surfaces.cli.top.events import Read
from duly.surfaces.cli.top.filters import OF_DEAD_LETTERS, OF_DELIVERIES, parsed
from duly.surfaces.cli.top.views import PAGE_ROWS, Kind, View


class Named(Protocol):
    """A record with a name."""

    @property
    def name(self) -> str: ...


Item = TypeVar("Item", bound=Named)
Kept = TypeVar("Kept", bound=Named, covariant=True)


class ListPage(Protocol[Kept]):
    """Reads one page of a list that is ordered by name."""

    async def __call__(self, *, after: str, limit: int) -> Sequence[Kept]: ...


class DeliveryPage(Protocol):
    """Reads one page of deliveries, in bounded time."""

    async def __call__(
        self, *, before: str | None, limit: int, payloads: bool
    ) -> Page[Delivery]: ...


SCANNED_PAGE, SCANNED_PAGES = 200, 25
"""How many streams or endpoints are read to find those that match a text."""
BARS = "▁▂▃▄▅▆▇█"


async def read(app: Backend, view: View) -> Read:
    """The content of a view, and the figures of the namespace."""
    figures = await app.stats.top()
    return Read(view, await READERS[view.kind](app, view, figures), figures)


async def _overview(app: Backend, _view: View, figures: Top) -> Content:
    found, alerts = await asyncio.gather(app.stats.overview(), app.alerts.raised())
    series = await app.stats.series()
    late = (await app.stats.status()).recovering if found.now.late else None
    return Content(
        above=(*_figures(found, series), *_running(figures, late)),
        headings=("needs attention",),
        rows=concerns(found.now, alerts),
        empty="nothing needs attention",
    )


def _figures(found: Overview, series: Series) -> Iterator[str]:
    now, hour = found.now, found.last_hour
    most = now.counted_up_to
    yield (
        f"now        {counted(now.processing, most)} processing, {counted(now.due, most)} due, "
        f"{counted(now.upcoming, most)} later, {counted(now.retries.count, most)} to retry, "
        f"{counted(now.dead, most)} dead"
    )
    yield (
        f"last hour  {hour.accepted} accepted, {hour.completed} completed, {hour.failed} attempts "
        f"failed, {hour.late} late"
    )
    yield f"completed  {bars([each.completed for each in series.points])} by minute"


def _running(figures: Top, late: BacklogStatus | None) -> Iterator[str]:
    busy = sum(each.holding for each in figures.workers)
    slots = sum(each.concurrency for each in figures.workers)
    yield f"workers    {len(figures.workers)} alive, {busy} of {slots} slots busy"
    if late is not None:
        yield f"recovering {_recovery(late)}"


def _recovery(late: BacklogStatus) -> str:
    rate = "" if late.rate is None else f", {late.rate:g} a second"
    left = "" if late.seconds_left is None else f", about {spelled(late.seconds_left)} left"
    return f"{late.count} late, the oldest since {cell(late.oldest)}{rate}{left}"


def bars(counts: Sequence[int]) -> str:
    """Numbers as bars of text; the highest fills the line, and none is a space."""
    most = max(counts, default=0)
    return "".join(BARS[(each * len(BARS) - 1) // most] if each else " " for each in counts)


async def _deliveries(app: Backend, view: View, figures: Top) -> Content:
    wanted: dict[str, Any] = parsed(view.text).keywords(OF_DELIVERIES)
    if view.state:
        wanted["state"] = view.state
    return await found_deliveries(partial(app.deliveries.page, **wanted), view, figures)


async def _dead_letters(app: Backend, view: View, figures: Top) -> Content:
    within = _dead_filter(view)
    found = await app.dead_letters.groups(within, limit=view.limit)
    made = [rows.group_row(each, within, view.text, figures.at) for each in found]
    return _listed(rows.GROUP_HEADINGS, made, view)


async def _group(app: Backend, view: View, figures: Top) -> Content:
    within = _dead_filter(view, view.name)
    return await found_deliveries(partial(app.dead_letters.page, within), view, figures)


async def found_deliveries(page: DeliveryPage, view: View, figures: Top) -> Content:
    """Deliveries from as many pages as it takes; a longer list may examine more of the store."""
    found, before, short_pages = list[Delivery](), None, 0
    while True:
        asked = min(SCANNED_PAGE, view.limit - len(found))
        part = await page(before=before, limit=asked, payloads=False)
        found, before = [*found, *part.items], part.next
        short_pages += len(part.items) < asked
        if not before or len(found) >= view.limit or short_pages >= view.limit // PAGE_ROWS:
            break
    made = [rows.delivery_row(each, figures.at) for each in found]
    content = _listed(rows.DELIVERY_HEADINGS, made, view)
    if not before:
        return content
    return replace(content, more=True, empty="none among the newest; move down to look further")


def _dead_filter(view: View, fingerprint: str | None = None) -> DeadLetterFilter:
    given: dict[str, Any] = parsed(view.text).keywords(OF_DEAD_LETTERS)
    return DeadLetterFilter(**given | ({} if fingerprint is None else {"fingerprint": fingerprint}))


async def _schedules(app: Backend, view: View, figures: Top) -> Content:
    found = await app.schedules.list(text=view.text or None, limit=view.limit + 1)
    made = [rows.schedule_row(each, figures.at) for each in found]
    return _listed(rows.SCHEDULE_HEADINGS, made, view)


async def _streams(app: Backend, view: View, figures: Top) -> Content:
    """Blocked and paused streams are first."""
    urgent = (StreamState.BLOCKED, StreamState.PAUSED)
    states = (view.state,) if view.state else (*urgent, None)
    found = dict[str, Stream]()
    for state in states:
        page = await _matching(partial(app.streams.list, state), view)
        found |= {each.name: each for each in page if each.name not in found}
    made = [rows.stream_row(each, figures.at) for each in found.values()]
    return _listed(rows.STREAM_HEADINGS, made, view)


async def _endpoints(app: Backend, view: View, _figures: Top) -> Content:
    found = await _matching(app.endpoints.list, view)
    return _listed(rows.ENDPOINT_HEADINGS, [rows.endpoint_row(each) for each in found], view)


async def _workers(app: Backend, view: View, figures: Top) -> Content:
    found = await app.workers.list(limit=view.limit)
    made = [rows.worker_row(each, figures.at) for each in found]
    chosen = [each for each in made if view.text.lower() in " ".join(each.cells).lower()]
    return _listed(rows.WORKER_HEADINGS, chosen, view)


async def _matching(page: ListPage[Item], view: View) -> list[Item]:
    """Those whose name contains the text; one more than the limit means that there are more."""
    wanted, after, found = view.limit + 1, "", list[Item]()
    for _ in range(SCANNED_PAGES):
        items = await page(after=after, limit=SCANNED_PAGE)
        found += [each for each in items if view.text.lower() in each.name.lower()]
        if len(items) < SCANNED_PAGE or len(found) >= wanted:
            break
        after = items[-1].name
    return found[:wanted]


def _listed(headings: tuple[str, ...], found: Sequence[Row], view: View) -> Content:
    return Content(
        headings=headings,
        rows=tuple(found[: view.limit]),
        more=len(found) > view.limit,
        empty="none match" if view.text else "none",
    )


async def _delivery(app: Backend, view: View, figures: Top) -> Content:
    found = await app.deliveries.detail(view.name)
    history = await app.deliveries.history(view.name)
    return Content(
        lines=_lines(delivery_text(found, history)), retry=rows.delivery_retry(found, figures.at)
    )


async def _schedule(app: Backend, view: View, _figures: Top) -> Content:
    found = await app.schedules.get(view.name)
    upcoming = await app.schedules.preview(view.name, SHOWN_MOMENTS)
    return Content(lines=_lines(schedule_text(found, upcoming)), pause=rows.schedule_pause(found))


async def _stream(app: Backend, view: View, _figures: Top) -> Content:
    found = await app.streams.get(view.name)
    return Content(
        lines=_lines(stream_text(found)),
        retry=rows.stream_retry(found),
        pause=rows.stream_pause(found),
    )


async def _endpoint(app: Backend, view: View, _figures: Top) -> Content:
    found = await app.endpoints.get(view.name)
    return Content(lines=_lines(endpoint_text(found)), pause=rows.endpoint_pause(found))


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n"))


READERS: dict[Kind, Callable[[Backend, View, Top], Awaitable[Content]]] = {
    Kind.OVERVIEW: _overview,
    Kind.DELIVERIES: _deliveries,
    Kind.DEAD_LETTERS: _dead_letters,
    Kind.GROUP: _group,
    Kind.SCHEDULES: _schedules,
    Kind.STREAMS: _streams,
    Kind.ENDPOINTS: _endpoints,
    Kind.WORKERS: _workers,
    Kind.DELIVERY: _delivery,
    Kind.SCHEDULE: _schedule,
    Kind.STREAM: _stream,
    Kind.ENDPOINT: _endpoint,
}
