"""Each resource is one document: what the API answers is what `--json` prints.

`test_remote.py` compares `--json` on a store with `--json` through a server; this compares it with
the API itself, and deliveries also with the records of an App and of a client.
"""

import json
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duly.client.client import Remote
from duly.system import SystemChance, SystemClock
from tests.support.postgres import ForeignServer, Server
from tests.surfaces.sides import Sides, both_sides, fresh_home

ONE = {
    "delivery": ("/v1/deliveries/<pending>", ("deliveries", "show", "<pending>")),
    "dead letter": ("/v1/deliveries/<dead>", ("deliveries", "show", "<dead>")),
    "schedule": ("/v1/schedules/every", ("schedules", "show", "every")),
    "endpoint": ("/v1/endpoints/shut", ("endpoints", "show", "shut")),
    "stream": ("/v1/streams/<line>", ("streams", "show", "<line>")),
    "status": ("/v1/status", ("status",)),
    "failures": ("/v1/stats/failures", ("stats",)),
}
"""One of each, by its path and its command."""
MANY = {
    "deliveries": ("/v1/deliveries?limit=5", ("deliveries", "list", "--limit", "5")),
    "schedules": ("/v1/schedules?limit=5", ("schedules", "list", "--limit", "5")),
    "endpoints": ("/v1/endpoints?limit=5", ("endpoints", "list", "--limit", "5")),
    "streams": ("/v1/streams?limit=5", ("streams", "list", "--limit", "5")),
    "dead letters": ("/v1/dead-letters?limit=5", ("dead", "list", "--limit", "5")),
    "groups": ("/v1/dead-letters/groups", ("dead", "groups")),
    "workers": ("/v1/workers", ("workers",)),
    "keys": ("/v1/keys", ("keys", "list")),
    "alerts": ("/v1/alerts", ("alerts",)),
    "audit": ("/v1/audit?limit=5", ("audit", "--limit", "5")),
}
"""The first of a list."""
DIFFERENT: dict[str, tuple[set[str], set[str]]] = {
    "schedule": (
        {
            *("cap", "catch_up", "description", "end", "expires_after", "jitter", "max_runs"),
            *("merged", "next_at", "next_id", "overlap", "payload", "priority", "retry", "runs"),
            *("skipped", "start", "stream", "tags", "target", "url", "webhook", "window"),
        },
        {"contents", "next", "timing"},
    ),
}
"""Fields that only the API has, and only `--json`. To be emptied: no field should differ."""

SHOWN = ("deliveries", "show")
LISTED = ("deliveries", "list", "--limit", "5")
DELIVERIES: dict[str, tuple[str, tuple[str, ...], Callable[[Any, Sides], Awaitable[Any]]]] = {
    "delivery": (
        "deliveries/<pending>",
        (*SHOWN, "<pending>"),
        lambda app, sides: app.deliveries.detail(sides.names["pending"][0]),
    ),
    "dead letter": (
        "deliveries/<dead>",
        (*SHOWN, "<dead>"),
        lambda app, sides: app.deliveries.detail(sides.names["dead"][0]),
    ),
    "deliveries": (
        "deliveries?limit=5",
        LISTED,
        lambda app, _: app.deliveries.list(limit=5, payloads=False),
    ),
    "page": (
        "deliveries?limit=5&state=dead",
        (*LISTED, "--state", "dead"),
        lambda app, _: app.deliveries.page(limit=5, state="dead", payloads=False),
    ),
    "deliveries with payloads": (
        "deliveries?limit=5&payloads=true",
        (*LISTED, "--payloads"),
        lambda app, _: app.deliveries.list(limit=5),
    ),
    "dead letters": (
        "dead-letters?limit=5&payloads=true",
        ("dead", "list", "--limit", "5", "--payloads"),
        lambda app, _: app.dead_letters.list(limit=5),
    ),
    "late": ("deliveries/late?grace=0", ("late", "--grace", "0s"), lambda app, _: late(app)),
    "stuck": ("deliveries/stuck", ("stuck",), lambda app, _: stuck(app)),
}
"""Where the API has deliveries, which command prints them, and what a program asks for."""


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def sides(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    sqlite_schema: Path,
    postgres: ForeignServer | Server,
    postgres_schema: str,
) -> Iterator[Sides]:
    folder = tmp_path_factory.mktemp("one")
    stores = (sqlite_schema, postgres, postgres_schema)
    with fresh_home(request.param, folder, *stores) as home, both_sides(home) as found:
        yield found


@pytest.mark.requirement("C10")
@pytest.mark.parametrize("resource", ONE)
def test_one_is_the_same_document(sides: Sides, resource: str) -> None:
    path, command = ONE[resource]
    compare(resource, asked(sides, path), printed(sides, command))


@pytest.mark.requirement("C10")
@pytest.mark.parametrize("resource", MANY)
def test_lists_hold_the_same_documents(sides: Sides, resource: str) -> None:
    path, command = MANY[resource]
    api, shown = asked(sides, path)["items"], printed(sides, command)["items"]
    assert bool(api) == bool(shown)
    if api:
        compare(resource, api[0], shown[0])


@pytest.mark.requirement("C10")
@pytest.mark.parametrize("name", DELIVERIES)
async def test_a_delivery_is_the_same_document_in_five_forms(sides: Sides, name: str) -> None:
    path, command, call = DELIVERIES[name]
    api = asked(sides, f"/v1/{path}")
    found = {"store": printed(sides, command), "server": printed(sides, command, server=True)}
    async with sides.home.app() as app:
        found["app"] = encoded(await call(app, sides))
    found["client"] = encoded(await call(client_of(sides), sides))
    items = {form: content(each) for form, each in found.items()}
    assert items == dict.fromkeys(items, content(api))
    assert content(api)


@pytest.mark.requirement("C10")
async def test_a_confirmation_is_the_same_document_in_five_forms(sides: Sides) -> None:
    given = {"target": "log", "payload": 1, "after": 3600.0, "key": "once"}
    command = ("deliver", "log", "1", "--after", "1h", "--key", "once")
    first, api = (asked(sides, "/v1/deliveries", given) for _ in range(2))
    found = [printed(sides, command), printed(sides, command, server=True)]
    async with sides.home.app() as app:
        found.append(encoded(await app.deliver("log", 1, after=3600, key="once")))
    found.append(encoded(await client_of(sides).deliver("log", 1, after=3600, key="once")))
    assert found == [api] * 4
    assert first == {**api, "known": False}
    assert api.keys() == {"id", "state", "due_at", "known"}


async def late(app: Any) -> Any:
    return await app.watch.late(timedelta(), payloads=False)


async def stuck(app: Any) -> Any:
    return await app.watch.stuck(timedelta(minutes=5), payloads=False)


def content(document: Any) -> Any:
    return document.get("items", document) if isinstance(document, dict) else document


def encoded(record: Any) -> Any:
    return json.loads(msgspec.json.encode(record))


def client_of(sides: Sides) -> Remote:
    return Remote(sides.url, sides.key, SystemClock(), SystemChance())


def compare(resource: str, api: dict[str, Any], shown: dict[str, Any]) -> None:
    only = (api.keys() - shown.keys(), shown.keys() - api.keys())
    assert only == DIFFERENT.get(resource, (set(), set()))


def asked(sides: Sides, path: str, body: Any = None) -> Any:
    named = "/".join(sides._named(path.split("/"), 0))
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(sides.url + named, data)
    request.add_header("content-type", "application/json")
    request.add_header("authorization", f"Bearer {sides.key}")
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def printed(sides: Sides, command: tuple[str, ...], *, server: bool = False) -> Any:
    run = sides.server if server else sides.store
    done = run(*command, "--json", side=0)
    assert done.code == 0, done.err
    return json.loads(done.out)
