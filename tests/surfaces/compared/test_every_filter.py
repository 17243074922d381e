"""Every filter of every list, in Python, over HTTP and on the command line, against a model.

The filters are taken from the lists themselves: a new one without a model fails here.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec
import pytest

import duly
from duly import App
from duly.domain.time.durations import duration
from duly.errors import InvalidInput
from duly.records.dead_letter import DeadLetterFilter
from duly.records.delivery import FilterKeywords
from duly.records.schedule import ScheduleFilterKeywords
from duly.stores.deliveries import pages
from duly.surfaces.cli.command_line import COMMANDS, command_line
from duly.surfaces.http.monitoring.health import ProcessHealth
from duly.system import SystemChance
from duly.testing import VirtualClock, run_until_idle
from tests.engine.cluster import Barrier
from tests.http.conftest import Client, calling
from tests.stores.store_probe import StoreProbe
from tests.surfaces.sample_deliveries import NEEDLE, handlers, populate
from tests.surfaces.sides import command

pytestmark = [pytest.mark.requirement("C10", "S2", "L7"), pytest.mark.long]

Row = dict[str, Any]
Find = Callable[[Mapping[str, Any]], Awaitable[list[str]]]
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
PAGING = {"after", "before", "cursor", "limit", "payloads", "sort"}
COMMON = {"database", "namespace", "server", "json"}
NO_BATCH = "01a1dfd1-5f0e-7c4b-9d5e-1f0c2a3b4c5d"
UNFILTERED = ("calendars", "endpoints", "limits", "workers", "keys")
"""The lists that have only parameters of paging and no filter."""


def moment(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


def contains(row: Row, text: str) -> bool:
    texts = (row["error"] or "", row["key"] or "", json.dumps(row["payload"]))
    return any(text in each for each in texts)


def is_late(row: Row, over: timedelta) -> bool:
    return row["first_at"] is not None and row["first_at"] - moment(row["due_at"]) > over


SHARED: dict[str, Callable[[Row, Any], bool]] = {
    "target": lambda row, value: row["target"] == value,
    "tag": lambda row, value: value in row["tags"],
    "stream": lambda row, value: row["stream"] == value,
    "schedule": lambda row, value: row["schedule"] == value,
    "reason": lambda row, value: row["reason"] == value,
    "text": contains,
}
DELIVERIES = SHARED | {
    "id": lambda row, value: row["id"].replace("-", "").startswith(value.replace("-", "").lower()),
    "state": lambda row, value: row["state"] == value,
    "key": lambda row, value: row["key"] == value,
    "batch": lambda row, value: row["batch"] == value,
    "since": lambda row, value: moment(row["accepted_at"]) >= moment(value),
    "until": lambda row, value: moment(row["accepted_at"]) <= moment(value),
    "late_over": lambda row, value: is_late(row, duration("late_over", value)),
}
DEAD = SHARED | {
    "fingerprint": lambda row, value: row["fingerprint"] == value,
    "since": lambda row, value: moment(row["dead_at"]) >= moment(value),
    "until": lambda row, value: moment(row["dead_at"]) <= moment(value),
    "ids": lambda row, value: row["id"] in value,
    "disposition": lambda row, value: (
        row["disposition"] == value
        or (value == "open" and row["disposition"] not in ("held", "given_up"))
    ),
}
STREAMS = {"state": lambda row, value: row["state"] == value}
SCHEDULES = {
    "text": lambda row, value: value.lower() in row["name"].lower(),
    "tag": lambda row, value: value in row["tags"],
    "state": lambda row, value: row["state"] == value,
    "target": lambda row, value: row["target"] == value,
}
BATCHES = {"state": lambda row, value: row["state"] == value}
MODELS = {
    "deliveries": DELIVERIES,
    "dead": DEAD,
    "streams": STREAMS,
    "batches": BATCHES,
    "schedules": SCHEDULES,
}
WITHOUT_PAYLOAD = ("streams", "batches", "schedules")
"""Records that have no payload."""


def values(rows: Sequence[Row], model: str, name: str) -> list[Any]:
    """Values for a filter: those that exist, and one that does not."""
    if name == "late_over":
        return ["0s", "1ms", "59m", "1h30m", "1d", "200d", "9w"]
    if name == "text" and model == "schedules":
        return [rows[0]["name"], rows[-1]["name"].upper(), rows[0]["name"][1:3], "%", "nowhere"]
    if name == "text":
        return [NEEDLE, "not like", "nowhere"]
    if name == "id":
        id = rows[len(rows) // 2]["id"]
        return [id, id.replace("-", "").upper(), *(id[:size] for size in (6, 13, 15, 35)), "ffff"]
    if name == "disposition":
        return ["open", "recovering", "held", "given_up"]
    if name == "ids":
        return [tuple(each["id"] for each in rows[:3])]
    if name == "batch":
        return [*{row["batch"] for row in rows if row["batch"]}, NO_BATCH]
    if name == "state" and model == "streams":
        return ["blocked", "paused"]
    column = {"tag": "tags", "since": "accepted_at", "until": "accepted_at"}.get(name, name)
    if model == "dead" and column == "accepted_at":
        column = "dead_at"
    found = [row[column] for row in rows]
    listed = [each if isinstance(each, list) else [each] for each in found if each is not None]
    flat = [each for some in listed for each in some]
    known = sorted(set(map(str, flat)))
    if column.endswith("_at"):
        known = [known[0], known[len(known) // 2], known[-1]]
    return known + ([] if column == "state" or column.endswith("_at") else ["nobody"])


def questions(
    rows: Sequence[Row], model: str, names: Sequence[str], pairs: int = 60
) -> list[dict[str, Any]]:
    """Each filter alone with every value, and some pairs of filters."""
    unknown = sorted(set(names) - MODELS[model].keys())
    assert not unknown, f"add {unknown} to the model of {model}"
    single = [{name: value} for name in names for value in values(rows, model, name)]
    chance = Random(7)
    both = [chance.choice(single) | chance.choice(single) for _ in range(pairs)]
    return [{}, *single, *both]


def expected(rows: Sequence[Row], model: str, question: Mapping[str, Any]) -> set[str]:
    kept = [
        row
        for row in rows
        if all(MODELS[model][name](row, value) for name, value in question.items())
    ]
    return {row.get("id") or row["name"] for row in kept}


async def compare(
    rows: Sequence[Row], model: str, names: Sequence[str], find: Find, pairs: int = 60
) -> None:
    for question in questions(rows, model, names, pairs):
        found = await find(question)
        assert len(found) == len(set(found)), (model, question, "listed twice")
        assert set(found) == expected(rows, model, question), (model, question)


def opened(url: str, clock: VirtualClock) -> App:
    chance = SystemChance(lambda: int(clock.now().timestamp() * 1000))
    app = App(url, clock=clock, chance=chance, environment={})
    handlers(app)
    return app


class Stage:
    """An app with all sample deliveries, some of them being processed."""

    def __init__(self, url: str) -> None:
        self.clock = VirtualClock(START)
        self.app = opened(url, self.clock)
        self.barrier = Barrier()
        self.app.handler("gate")(self.barrier.handle)

    async def __aenter__(self) -> Stage:
        await self.app.open()
        await populate(self.app, self.clock)
        await self._more_schedules()
        await self._dispositions()
        await self.app.deliver("gate", 13, tags=["red"])
        await self.app.deliver("gate", 14, stream="running")
        await self.app.deliver("gate", 15, stream="running")
        self.engine = self.app.engine(stepped=True)
        await self.engine.prepare()
        async with asyncio.timeout(10):
            while self.barrier.inside < 2 or self.engine.running > 2:
                self.engine.worker.signal.hint()
                await self.engine.worker.dispatcher.tick()
                await asyncio.tasks.sleep(0)
        await self.engine.worker.settler.flush()
        return self

    async def _more_schedules(self) -> None:
        """Schedules that are paused or finished, with tags."""
        soon = self.clock.now() + timedelta(minutes=1)
        await self.app.schedule("paused", duly.every("1h"), "later", tags=["red", "blue"])
        await self.app.schedules.pause("paused")
        await self.app.schedule("finished", duly.at(soon), "work", tags=["blue"])
        self.clock.advance(120)
        await run_until_idle(self.app)

    async def _dispositions(self) -> None:
        """Some dead letters are held, given up, or recovering."""
        dead, recovery = self.app.dead_letters, self.app.recovery
        first, second, *_ = await dead.list(limit=2)
        await dead.hold(first.id, "wait")
        await dead.give_up(second.id, "no use")
        await recovery.set("dependency_failure", tries=1, after="99d", then="hold")
        await run_until_idle(self.app)

    async def __aexit__(self, *error: object) -> None:
        await self.engine.worker.runner.drain(0)
        await self.app.close()

    async def rows(self) -> list[Row]:
        """All deliveries; checks that none of the ledger is missing."""
        found = [as_row(each) for each in await self.app.list(limit=1000)]
        for row in found:
            started = [each.started_at for each in await self.app.attempts(row["id"])]
            row["first_at"] = min((each for each in started if each is not None), default=None)
            if row["first_at"] is None and row["state"] in ("pending", "processing"):
                row["first_at"] = row["claimed_at"] or self.clock.now()
        probe = StoreProbe(self.app.store, self.clock)  # type: ignore[arg-type]
        many = await probe.sql("select count(*) as many from duly.deliveries")
        assert len(found) == many[0]["many"] > 60
        assert {row["state"] for row in found} == {
            *("pending", "processing", "completed", "dead", "cancelled")
        }
        return found

    async def dead(self) -> list[Row]:
        return [row for row in await self.rows() if row["dead_at"] is not None]

    async def streams(self) -> list[Row]:
        return [msgspec.to_builtins(each) for each in await self.app.streams.list(limit=1000)]

    async def batches(self) -> list[Row]:
        found = [msgspec.to_builtins(each) for each in await self.app.batches.list(limit=1000)]
        assert {row["state"] for row in found} == {"open", "closed", "finished", "cancelled"}
        return found

    async def schedules(self) -> list[Row]:
        found = await self.app.schedules.list(limit=1000)
        return [
            msgspec.to_builtins(each) | {"tags": (await self.app.schedules.get(each.name)).tags}
            for each in found
        ]


def as_row(record: Any) -> Row:
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    return fields | {"payload": record.payload}


@pytest.mark.parametrize("scan_limit", [10_000, 5])
async def test_filters_in_python(
    database_url: str, monkeypatch: pytest.MonkeyPatch, scan_limit: int
) -> None:
    monkeypatch.setattr(pages, "MOST", scan_limit)
    async with Stage(database_url) as stage:
        app, dead = stage.app, stage.app.dead_letters

        async def deliveries(question: Mapping[str, Any]) -> list[str]:
            return [each.id for each in await app.list(**_timed(question), limit=1000)]

        async def letters(question: Mapping[str, Any]) -> list[str]:
            wanted = DeadLetterFilter(**_timed(question))
            return [each.id for each in await dead.list(wanted, limit=1000)]

        async def streams(question: Mapping[str, Any]) -> list[str]:
            return [each.name for each in await app.streams.list(**question, limit=1000)]

        async def batches(question: Mapping[str, Any]) -> list[str]:
            return [each.id for each in await app.batches.list(**question, limit=1000)]

        async def schedules(question: Mapping[str, Any]) -> list[str]:
            return [each.name for each in await app.schedules.list(**question, limit=1000)]

        rows = await stage.rows()
        await compare(rows, "deliveries", [*FilterKeywords.__annotations__], deliveries)
        await compare(await stage.dead(), "dead", [*DeadLetterFilter.__struct_fields__], letters)
        await compare(await stage.streams(), "streams", _arguments(app.streams.list), streams)
        await compare(await stage.batches(), "batches", _arguments(app.batches.list), batches)
        found = await stage.schedules()
        await compare(found, "schedules", [*ScheduleFilterKeywords.__annotations__], schedules)
        for name in UNFILTERED:
            assert _arguments(getattr(app, name).list) == [], name


def _arguments(list_: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(list_).parameters if name not in PAGING]


def _timed(question: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: moment(value) if name in ("since", "until") else value
        for name, value in question.items()
    }


PATHS = {
    "/v1/deliveries": "deliveries",
    "/v1/dead-letters": "dead",
    "/v1/streams": "streams",
    "/v1/batches": "batches",
    "/v1/schedules": "schedules",
}
OTHER_PATHS = {
    *("/v1/deliveries/counts", "/v1/deliveries/{id}"),
    *("/v1/deliveries/late", "/v1/deliveries/stuck", "/v1/dead-letters/groups"),
    *(
        "/v1/stats/failures",
        "/v1/stats/series",
        "/v1/stats/outages",
        "/v1/stats/top",
        "/v1/alerts",
        "/v1/events",
    ),
    *("/v1/schedules/{name}/preview", "/v1/status", "/v1/dead-letters/poison"),
}
"""Paths with parameters that are not these lists; they have their own tests."""


@pytest.mark.parametrize("scan_limit", [10_000, 5])
async def test_filters_over_http(
    database_url: str, monkeypatch: pytest.MonkeyPatch, scan_limit: int
) -> None:
    monkeypatch.setattr(pages, "MOST", scan_limit)
    async with (
        Stage(database_url) as stage,
        calling(stage.app, ProcessHealth(stage.app, stage.engine)) as client,
    ):
        lists = await _filters(client)
        assert lists.keys() - OTHER_PATHS == PATHS.keys()
        of = {
            "deliveries": stage.rows,
            "dead": stage.dead,
            "streams": stage.streams,
            "batches": stage.batches,
            "schedules": stage.schedules,
        }
        for path, model in PATHS.items():
            find = _paged(client, path)
            await compare(await of[model](), model, lists[path], find)


async def _filters(client: Client) -> dict[str, list[str]]:
    """The query parameters of every GET, without those of paging."""
    paths = (await client.get("/docs/openapi.json")).json()["paths"]
    found = {}
    for path, methods in paths.items():
        given = methods.get("get", {}).get("parameters", ())
        names = [each["name"] for each in given if each["in"] == "query"]
        if path.startswith("/v1/") and (filters := [each for each in names if each not in PAGING]):
            found[path] = filters
    return found


def _paged(client: Client, path: str) -> Find:
    async def find(question: Mapping[str, Any]) -> list[str]:
        filters = {name: _as_text(value) for name, value in question.items()}
        query, ids = filters | {"limit": "7"}, list[str]()
        while True:
            answer = await client.get(path, params=query)
            assert answer.status_code == 200, (answer.text, question)
            page = answer.json()
            ids += [each.get("id") or each["name"] for each in page["items"]]
            if page["next"] is None:
                return ids
            query["cursor"] = page["next"]

    return find


def _as_text(value: Any) -> str:
    return moment(value).isoformat() if isinstance(value, datetime) else str(value)


def test_filters_on_the_command_line(database_url: str) -> None:
    async def populated() -> dict[str, Row]:
        """What lists do not show: the first attempts, and the tags of schedules."""
        async with Stage(database_url) as stage:
            rows = await stage.rows()
            started = {
                row["id"]: {"first_at": row["first_at"]} for row in rows if row["started_at"]
            }
            return started | {row["name"]: {"tags": row["tags"]} for row in await stage.schedules()}

    more = asyncio.run(populated())

    def listed_by(group: str, *words: str) -> list[Row]:
        where = {"DULY_DATABASE": database_url}
        done = command(group, "list", *words, "--limit", "1000", "--json", environ=where)
        found: list[Row] = done.document["items"]
        return [{"first_at": waiting(row)} | row | more.get(_name(row), {}) for row in found]

    def waiting(row: Row) -> datetime | None:
        if row.get("state") not in ("pending", "processing"):
            return None
        # The command has no virtual clock.
        return moment(row["claimed_at"]) if row["claimed_at"] else datetime.now(UTC)

    async def compared(group: str) -> None:
        async def find(question: Mapping[str, Any]) -> list[str]:
            words = [
                f"--{name.replace('_', '-')}={_as_text(value)}" for name, value in question.items()
            ]
            return [_name(each) for each in listed_by(group, *words)]

        rows = listed_by(group, *([] if group in WITHOUT_PAYLOAD else ["--payloads"]))
        assert rows
        await compare(rows, group, _options(group), find, pairs=0)

    for group in MODELS:
        asyncio.run(compared(group))
    for group in COMMANDS:
        if group not in MODELS and (names := _options(group)) is not None:
            assert names == [], f"add {names} of {group} to a model"


def _name(row: Row) -> str:
    name: str = row.get("id") or row["name"]
    return name


def _options(group: str) -> Any:
    """The filters of a list on the command line; None if the group has no list."""
    try:
        command = command_line(overview=False)[group]["list"]
    except (KeyError, TypeError, AttributeError):
        return None
    arguments = command.assemble_argument_collection()
    names = [each.name.removeprefix("--").replace("-", "_") for each in arguments]
    # `alerts --all` has its own test.
    return [name for name in names if name not in PAGING | COMMON | {"*", "all"}]


async def test_a_filter_without_a_model_fails(sqlite_url: str) -> None:
    with pytest.raises(AssertionError, match="to the model of"):
        questions([], "streams", ["colour"])
    async with App(sqlite_url, environment={}) as app:
        with pytest.raises(InvalidInput, match="cannot be listed"):
            await app.streams.list("idle")
