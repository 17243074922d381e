"""Handlers as ordinary functions: typed arguments, delivered and checked where they are given."""

import enum
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

import duly
from duly import App, InvalidInput, State
from duly.testing import VirtualClock, run_until_idle

pytestmark = pytest.mark.requirement("P1")

NOVEMBER = date(2026, 11, 1)


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int = 0


class Order(msgspec.Struct):
    number: int


class Customer(pydantic.BaseModel):
    name: str


VALUES = [
    (int, 7),
    (float, 1.5),
    (bool, True),
    (str, "text"),
    (bytes, b"\x00\xff"),
    (date, NOVEMBER),
    (datetime, datetime(2026, 11, 1, 9, tzinfo=UTC)),
    (timedelta, timedelta(hours=1)),
    (Decimal, Decimal("1.50")),
    (UUID, UUID(int=7)),
    (Colour, Colour.RED),
    (Point, Point(1, 2)),
    (Order, Order(7)),
    (Customer, Customer(name="Ada")),
    (list[Point], [Point(1), Point(2)]),
    (list[Customer], [Customer(name="Ada")]),
    (dict[str, Order | None], {"a": Order(1), "b": None}),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (int | None, None),
    (Any, {"a": [1, None]}),
    (object, [1]),
]


@pytest.mark.parametrize(("wanted", "value"), VALUES, ids=lambda each: repr(each)[:40])
async def test_an_argument_arrives_as_it_was_given(small_app: App, wanted: Any, value: Any) -> None:
    got: list[Any] = []

    async def take(team: int, value: wanted) -> None:
        got.append((team, value))

    handler: Any = small_app.handler("take")(take)
    await handler.deliver(1, value)
    await handler.deliver(2, value=value)
    assert await run_until_idle(small_app) == 2
    assert got == [(1, value), (2, value)]


async def test_a_handler_is_delivered_with_options_in_bulk_and_called_directly(
    app: App, clock: VirtualClock
) -> None:
    done: list[tuple[int, date, bool]] = []

    @app.handler
    async def weekly(team: int, since: date, *, dry_run: bool = False) -> str:
        done.append((team, since, dry_run))
        return f"team {team}"

    assert weekly.name == f"{__name__}.weekly"
    assert (weekly.__name__, repr(weekly)) == ("weekly", f"<handler {__name__}.weekly>")
    await weekly.deliver(7, since=NOVEMBER)
    first = await weekly.using(after=30, key="2026-W46", stream="team:7").deliver(8, NOVEMBER)
    again = await weekly.using(after=30, key="2026-W46", stream="team:7").deliver(8, NOVEMBER)
    assert (first.id, first.known, again.id, again.known) == (first.id, False, first.id, True)
    await weekly.deliver_many(weekly.item(n, NOVEMBER, dry_run=True) for n in (9, 10))
    await app.deliver(weekly, {"team": 12, "since": "2026-11-01"})
    assert await weekly(13, NOVEMBER) == "team 13"
    await run_until_idle(app)
    clock.advance(30)
    await run_until_idle(app)
    assert sorted(done) == [
        *((7, NOVEMBER, False), (8, NOVEMBER, False), (9, NOVEMBER, True), (10, NOVEMBER, True)),
        *((12, NOVEMBER, False), (13, NOVEMBER, False)),
    ]
    stored = await app.get(first.id)
    assert (stored.stream, stored.key) == ("team:7", "2026-W46")
    assert stored.payload == {"team": 8, "since": "2026-11-01"}
    assert len(await app.list(target=weekly, state=State.COMPLETED)) == 5


async def test_one_parameter_gets_the_delivery(small_app: App) -> None:
    got: list[Any] = []

    @small_app.handler("first")
    async def first(delivery: duly.Delivery[Any], team: int) -> None:
        got.append((delivery.target, delivery.payload, team))

    @small_app.handler("last")
    def last(team: int, *, about: duly.Delivery[Any]) -> None:
        got.append((about.target, about.payload, team))

    await first.deliver(1)
    await small_app.deliver(last, {"team": 2})
    await run_until_idle(small_app)
    assert sorted(got) == [("first", {"team": 1}, 1), ("last", {"team": 2}, 2)]


async def test_the_delivery_is_given_as_its_parameter_takes_it(small_app: App) -> None:
    got: list[str] = []

    def alone_by_name(*, delivery: Any) -> None:
        got.append(f"{delivery.target} {delivery.payload}")

    def alone_by_place(delivery: Any, /) -> None:
        got.append(f"{delivery.target} {delivery.payload}")

    def by_place(delivery: duly.Delivery, /, team: int) -> None:
        got.append(f"{delivery.target} {team}")

    def by_name(team: int, *, delivery: duly.Delivery) -> None:
        got.append(f"{delivery.target} {team}")

    for function in (alone_by_name, alone_by_place, by_place, by_name):
        small_app.handler(function.__name__)(function)
        await small_app.deliver(function.__name__, {"team": 7})
    await run_until_idle(small_app)
    alone = "{'team': 7}"
    assert sorted(got) == [
        *(f"alone_by_name {alone}", f"alone_by_place {alone}"),
        *("by_name 7", "by_place 7"),
    ]


async def test_a_function_without_parameters_needs_no_payload(small_app: App) -> None:
    runs: list[int] = []

    @small_app.handler("sweep")
    async def sweep() -> None:
        runs.append(1)

    await sweep.deliver()
    await small_app.deliver("sweep")
    await small_app.deliver("sweep", {})
    refused = await small_app.deliver("sweep", {"team": 7})
    await run_until_idle(small_app)
    assert len(runs) == 3
    dead = await small_app.get(refused.id)
    assert (dead.state, dead.reason) == (State.DEAD, "serialization_error")
    assert "`team`" in str(dead.error)


async def test_a_default_is_that_of_the_function_when_it_runs(small_app: App) -> None:
    got: list[Any] = []

    @small_app.handler("take")
    async def take(team: int, size: int = 10, note: str | None = None) -> None:
        got.append((team, size, note))

    stored = await take.deliver(1)
    assert (await small_app.get(stored.id)).payload == {"team": 1}
    await take.deliver(2, note="n")
    await run_until_idle(small_app)
    assert got == [(1, 10, None), (2, 10, "n")]


async def test_wrong_arguments_are_refused_where_they_are_given(small_app: App) -> None:
    @small_app.handler("weekly")
    async def weekly(team: int, since: date, point: Point | None = None) -> None:
        raise AssertionError

    call: Any = weekly
    for given, named, problem in [
        ((), {}, "weekly: missing a required argument: 'team'"),
        ((7,), {}, "missing a required argument: 'since'"),
        ((7, NOVEMBER, None, 1), {}, "too many positional arguments"),
        ((7, NOVEMBER), {"dry": 1}, "got an unexpected keyword argument 'dry'"),
        (("7", NOVEMBER), {}, r"Expected `int`, got `str` - at `\$\.team`"),
        ((7, "soon"), {}, r"Invalid RFC3339 .* - at `\$\.since`"),
        ((7, NOVEMBER, {"x": "a"}), {}, r"at `\$\.point\.x`"),
        ((7, object()), {}, "weekly: since: object is not a type of JSON"),
    ]:
        for refuse in (call.deliver, call.using(after=1).deliver):
            with pytest.raises(InvalidInput, match=problem) as refusal:
                await refuse(*given, **named)
            assert refusal.value.field == "arguments"
        with pytest.raises(InvalidInput, match=problem):
            call.item(*given, **named)
    with pytest.raises(InvalidInput, match=r"got `null` - at `\$\.value`"):
        await small_app.handler("float")(_float).deliver(float("nan"))
    assert await small_app.list() == []


async def _float(value: float) -> None: ...


async def test_a_payload_that_no_longer_fits_is_dead_and_can_be_edited(app: App) -> None:
    got: list[int] = []

    @app.handler("weekly", retry=duly.delays(1))
    async def weekly(team: int) -> None:
        got.append(team)

    old = await app.deliver("weekly", {"group": 7})
    await run_until_idle(app)
    dead = await app.get(old.id)
    assert (dead.state, dead.reason, dead.attempt) == (State.DEAD, "serialization_error", 1)
    assert "`group`" in str(dead.error)
    await app.dead_letters.edit(old.id, {"team": 7})
    await run_until_idle(app)
    assert got == [7]


async def test_a_handler_that_takes_the_delivery_is_delivered_with_its_payload(
    small_app: App,
) -> None:
    got: list[Any] = []

    @small_app.handler("order")
    async def order(delivery: duly.Delivery[Order]) -> None:
        got.append(delivery.payload)

    await order.deliver(Order(7))
    await run_until_idle(small_app)
    assert got == [Order(7)]
    call: Any = order
    for given, named in [((1, 2), {}), ((), {"number": 1})]:
        with pytest.raises(InvalidInput, match="order takes the delivery: give its payload"):
            await call.deliver(*given, **named)


@pytest.mark.parametrize("wanted", [Any, object, duly.Delivery, duly.Delivery[object]])
async def test_a_single_parameter_that_says_nothing_gets_the_delivery(
    small_app: App, wanted: Any
) -> None:
    got: list[Any] = []

    async def take(it: wanted) -> None:
        got.append(it.payload)

    small_app.handler("take")(take)
    await small_app.deliver("take", [1, "a"])
    await run_until_idle(small_app)
    assert got == [[1, "a"]]


async def test_a_handler_works_wherever_its_name_does(app: App) -> None:
    done: list[int] = []

    @app.schedule(duly.every("1h"), payload={"team": 1}, name="hourly")
    @app.handler("weekly")
    def weekly(team: int) -> None:
        done.append(team)

    await app.close()
    await app.open()
    await app.schedule("daily", duly.every("1d"), weekly, {"team": 2})
    schedules = {each.name: each.target for each in await app.schedules.list()}
    assert schedules == {"hourly": "weekly", "daily": "weekly"}
    async with app.transaction() as tx:
        await app.deliver(weekly, {"team": 3}, connection=tx)
        await weekly.using(connection=tx).deliver(4)
    await app.deliver_many([(weekly, {"team": 5}), weekly.item(6)])
    assert (await app.deliveries.counts(target=weekly)).states[State.PENDING] >= 4
    assert (await app.stats.series(target=weekly)).points
    app.within("elsewhere").expect(weekly)
    await app.within("elsewhere").deliver(weekly, {"team": 7})
    await run_until_idle(app)
    assert {3, 4, 5, 6} <= set(done)


def test_two_decorators_may_be_stacked(small_app: App) -> None:
    @small_app.handler("second")
    @small_app.handler("first")
    async def both(team: int) -> None: ...

    assert small_app.handlers.serves() == ["first", "second"]
    assert both.name == "second"


async def test_a_schedule_without_a_payload_gives_what_the_parameters_name(
    database_url: str, clock: VirtualClock
) -> None:
    app = App(database_url, clock=clock, environment={})
    seen: list[Any] = []

    @app.schedule(duly.every("1h"))
    @app.handler("nothing")
    async def nothing() -> None:
        seen.append("nothing")

    @app.schedule(duly.every("1h"))
    @app.handler("moment")
    async def moment(scheduled_for: datetime, copies: int = 2) -> None:
        seen.append((scheduled_for, copies))

    async with app:
        await app.schedules.trigger("nothing")
        await run_until_idle(app)
        clock.advance(3600)
        await run_until_idle(app)

    occurrence = clock.now().replace(minute=0, second=0, microsecond=0)
    assert seen[0] == "nothing"
    assert sorted(map(str, seen[1:])) == sorted(["nothing", str((occurrence, 2))])


async def test_a_schedule_gives_its_payload_as_arguments(
    database_url: str, clock: VirtualClock
) -> None:
    app = App(database_url, clock=clock, environment={})
    seen: list[Any] = []

    @app.schedule(duly.every("1h"), payload={"team": 7, "id": duly.DELIVERY_ID})
    @app.handler("weekly")
    async def weekly(team: int, id: UUID) -> None:
        seen.append((team, id))

    async with app:
        clock.advance(3600)
        await run_until_idle(app)
        (delivery,) = await app.list(state="completed")

    assert seen == [(7, UUID(delivery.id))]


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (None, "missing required field `team`"),
        ({"team": "seven"}, "Expected `int`, got `str` - at `$.team`"),
        ({"team": 7, "teem": 8}, "unknown field `teem`"),
    ],
)
async def test_a_schedule_whose_payload_does_not_fit_its_function_is_refused_at_the_start(
    sqlite_url: str, payload: Any, problem: str
) -> None:
    app = App(sqlite_url, environment={})

    @app.schedule(duly.every("1h"), payload=payload)
    @app.handler("weekly")
    async def weekly(team: int) -> None: ...

    with pytest.raises(InvalidInput, match=re.escape(problem)) as info:
        await app.open()
    assert info.value.field == "payload"
    async with App(sqlite_url, environment={}) as other:
        assert await other.schedules.list() == []
