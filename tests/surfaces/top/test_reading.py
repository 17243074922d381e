"""What the views show is the same on a store and through its server, on both stores."""

from dataclasses import replace

import pytest

from duly import App, Client
from duly.records.delivery import Delivery
from duly.records.page import Page
from duly.records.state import State
from duly.surfaces.cli.top.reading import READERS, found_deliveries, read
from duly.surfaces.cli.top.views import Kind, View
from tests.surfaces.sides import Sides, with_placeholders
from tests.surfaces.top.test_drawing import FIGURES

VIEWS = [
    *(View(Kind.DELIVERIES), View(Kind.DELIVERIES, state="dead")),
    *(View(Kind.DELIVERIES, text="target:fails no"), View(Kind.DELIVERIES, limit=3)),
    *(View(Kind.DEAD_LETTERS), View(Kind.DEAD_LETTERS, text="tag:some-north")),
    *(View(Kind.SCHEDULES), View(Kind.SCHEDULES, text="VER"), View(Kind.SCHEDULE, "every")),
    *(View(Kind.STREAMS), View(Kind.STREAMS, state="blocked"), View(Kind.STREAMS, text="NORTH")),
    *(View(Kind.STREAM, "line-north"), View(Kind.ENDPOINT, "shut")),
    *(View(Kind.ENDPOINTS), View(Kind.ENDPOINTS, text="hook"), View(Kind.OVERVIEW)),
]


@pytest.fixture
def views(sides: Sides) -> list[View]:
    return [*VIEWS, View(Kind.DELIVERY, sides.names["dead"][0])]


def plain(found: object) -> str:
    return with_placeholders(repr(found), ())


@pytest.mark.requirement("S6", "P17")
async def test_a_store_and_its_server_show_the_same(sides: Sides, views: list[View]) -> None:
    async with (
        App(sides.home.database, environment={}) as app,
        Client(sides.url, key=sides.key) as client,
    ):
        for view in views:
            ours, its = await read(app, view), await read(client, view)
            assert [each.key for each in ours.content.rows] == [
                each.key for each in its.content.rows
            ]
            for one, other in zip(ours.content.rows, its.content.rows, strict=True):
                assert (one.opens, one.pause, one.tone) == (other.opens, other.pause, other.tone)
            assert plain(ours.content.lines) == plain(its.content.lines)
            assert ours.content.more == its.content.more


@pytest.mark.requirement("F4", "F7")
async def test_lists_have_what_the_store_has(sides: Sides) -> None:
    async def keys(view: View) -> list[str]:
        return [each.key for each in (await read(app, view)).content.rows]

    async with App(sides.home.database, environment={}) as app:
        # Blocked streams are first, then paused ones, then the others by name.
        assert await keys(View(Kind.STREAMS)) == [
            *("line-north", "line-south", "paused", "queue-north", "queue-south")
        ]
        assert await keys(View(Kind.STREAMS, text="NORTH")) == ["line-north", "queue-north"]
        assert await keys(View(Kind.SCHEDULES, text="ver")) == ["every"]
        dead = (await read(app, View(Kind.DEAD_LETTERS))).content.rows
        assert dead[0].cells[:3] == ("6", "handler_exception", "fails")
        group = await keys(View(Kind.GROUP, dead[0].key))
        assert len(group) == 6
        some = await keys(View(Kind.GROUP, dead[0].key, text="tag:some-north"))
        assert len(some) == 3
        assert set(some) < set(group)
        short = (await read(app, View(Kind.DELIVERIES, limit=3))).content
        assert (len(short.rows), short.more) == (3, True)


def test_every_view_that_can_be_opened_has_a_reader() -> None:
    # A worker has no page of its own.
    assert {Kind.WORKER} == set(Kind) - READERS.keys()
    assert replace(View(Kind.WORKERS), text="x").is_list


class Ledger:
    """Pages of a store with few matches: each page examines a part and may be short."""

    def __init__(self, *pages: int) -> None:
        self.pages = pages
        self.asked: list[tuple[str | None, int]] = []

    async def page(self, *, before: str | None, limit: int, payloads: bool) -> Page[Delivery]:
        self.asked.append((before, limit))
        place = int(before or 0)
        following = str(place + 1) if place + 1 < len(self.pages) else None
        return Page([found(f"{place}-{n}") for n in range(self.pages[place])], following)


def found(id: str) -> Delivery:
    return Delivery(
        id=id,
        namespace="default",
        target="log",
        state=State.PENDING,
        priority=5,
        attempt=0,
        due_at=FIGURES.at,
        accepted_at=FIGURES.at,
    )


@pytest.mark.parametrize(
    ("pages", "limit", "asked", "shown", "more"),
    [
        ((0, 0, 0, 4), 100, 1, 0, True),
        ((0, 0, 0, 4), 300, 3, 0, True),
        ((0, 0, 0, 4), 900, 4, 4, False),
        ((100, 5), 100, 1, 100, True),
        ((200, 100, 5), 300, 2, 300, True),
        ((7,), 100, 1, 7, False),
    ],
)
async def test_a_longer_list_examines_more_of_the_store(
    pages: tuple[int, ...], limit: int, asked: int, shown: int, more: bool
) -> None:
    ledger = Ledger(*pages)
    content = await found_deliveries(ledger.page, View(Kind.DELIVERIES, limit=limit), FIGURES)
    assert (len(ledger.asked), len(content.rows), content.more) == (asked, shown, more)
    assert (content.empty == "none") is not more
