"""Each resource is one document: what the API answers is what `--json` prints.

`test_remote.py` compares `--json` on a store with `--json` through a server; this compares it with
the API itself, and both with the records of Python and of the client.
"""

import json
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duly.client.client import Remote
from duly.records.worker import Worker
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
    "series": ("/v1/stats/series", ("stats", "--series")),
    "top": ("/v1/stats/top", ("top",)),
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
LISTED = ({"late_seconds"}, {"late_by", "payload"})
DIFFERENT: dict[str, tuple[set[str], set[str]]] = {
    "delivery": ({"late_seconds", "transitions"}, {"late_by"}),
    "dead letter": ({"late_seconds", "transitions"}, {"late_by"}),
    "deliveries": LISTED,
    "dead letters": LISTED,
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
VARYING = {"at", "since", "beat_at", "last_used_at", "planner_lag"}
"""Fields whose values depend on when they are asked for."""
Asked = tuple[str, str, Any, tuple[str, ...], Callable[[Any], Awaitable[Any]]]


async def drained(app: Any) -> Worker:
    (worker, *_) = await app.workers.list()
    return await app.workers.drain(worker.id)


async def resumed(app: Any) -> Worker:
    (worker, *_) = await app.workers.list()
    return await app.workers.resume(worker.id)


RECORDS: dict[str, Asked] = {
    "stream": (
        *("GET", "streams/paused", None),
        ("streams", "show", "paused"),
        lambda app: app.streams.get("paused"),
    ),
    "streams": (
        *("GET", "streams?limit=3", None),
        ("streams", "list", "--limit", "3"),
        lambda app: app.streams.list(limit=3),
    ),
    "configured stream": (
        *("PATCH", "streams/new", {"on_failure": "release"}),
        ("streams", "configure", "new", "--on-failure", "release"),
        lambda app: app.streams.configure("new", on_failure="release"),
    ),
    "groups": (
        *("GET", "dead-letters/groups", None),
        ("dead", "groups"),
        lambda app: app.dead_letters.groups(),
    ),
    "workers": (
        *("GET", "workers", None),
        ("workers",),
        lambda app: app.workers.list(),
    ),
    "drained worker": (
        *("POST", "workers/<worker>/drain", {}),
        ("workers", "drain", "<worker>"),
        drained,
    ),
    "resumed worker": (
        *("POST", "workers/<worker>/resume", {}),
        ("workers", "resume", "<worker>"),
        resumed,
    ),
    "keys": (
        *("GET", "keys", None),
        ("keys", "list"),
        lambda app: app.keys.list(),
    ),
    "alerts": (
        *("GET", "alerts", None),
        ("alerts", "--all"),
        lambda app: app.alerts.list(),
    ),
    "audit": (
        *("GET", "audit?limit=5", None),
        ("audit", "--limit", "5"),
        lambda app: app.audit.list(limit=5),
    ),
    "status": (
        *("GET", "status", None),
        ("status",),
        lambda app: app.stats.status(),
    ),
    "failures": (
        *("GET", "stats/failures", None),
        ("stats",),
        lambda app: app.stats(),
    ),
}
"""What gives the same record again: a request, a command, and a call of an App or a client."""


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


def compare(resource: str, api: dict[str, Any], shown: dict[str, Any]) -> None:
    only = (api.keys() - shown.keys(), shown.keys() - api.keys())
    assert only == DIFFERENT.get(resource, (set(), set()))


@pytest.mark.requirement("C10")
@pytest.mark.parametrize("resource", RECORDS)
async def test_five_forms_are_one_document(sides: Sides, resource: str) -> None:
    method, path, body, command, call = RECORDS[resource]
    # Only the first changes anything.
    asked(sides, f"/v1/{path}", method, body)
    api = asked(sides, f"/v1/{path}", method, body)
    forms = {"API": api, "store": printed(sides, command)}
    forms["server"] = json.loads(sides.server(*command, "--json").out)
    async with sides.home.app() as app:
        forms["App"] = encoded(await call(app))
    forms["client"] = encoded(await call(client_of(sides)))
    steady = {name: without_varying(each) for name, each in forms.items()}
    assert steady == dict.fromkeys(steady, steady["API"])


@pytest.mark.requirement("C10")
def test_what_is_made_or_moved_is_the_same_document(sides: Sides) -> None:
    """New each time, or not a record of Python: the fields are compared."""
    made = asked(sides, "/v1/keys", "POST", {"name": "ann"})
    assert made.keys() == printed(sides, ("keys", "create", "ann")).keys()
    assert {**made, "state": "active", "scope": "read"} == made
    moved = asked(sides, "/v1/dead-letters/retry", "POST", {"all": True, "dry_run": True})
    assert moved == printed(sides, ("dead", "retry", "--all", "--dry-run"))
    assert list(moved) == ["matching", "moved", "until", "finished"]


@pytest.mark.requirement("C10")
async def test_what_no_command_shows_is_the_same_for_an_app_and_a_client(sides: Sides) -> None:
    client, (key, _) = client_of(sides), sides.names["key"]
    async with sides.home.app() as app:
        assert await client.keys.get(key) == await app.keys.get(key)
        (first, *_) = alerts = await app.alerts.list()
        assert await client.alerts.list(before=first.id) == alerts[1:]
        ours, theirs = await app.dead_letters.page(limit=2), await client.dead_letters.page(limit=2)
        assert (ours.items, ours.next) == (theirs.items, theirs.next)
        (then, there) = await app.stats.overview(), await client.stats.overview()
        assert (then.last_hour, then.now.dead) == (there.last_hour, there.now.dead)


def without_varying(document: Any) -> Any:
    """The document, or the items of a list, without the fields that depend on the moment."""
    if isinstance(document, list):
        return [without_varying(each) for each in document]
    if "items" in document:
        return without_varying(document["items"])
    return {name: each for name, each in document.items() if name not in VARYING}


def client_of(sides: Sides) -> Remote:
    return Remote(sides.url, sides.key, SystemClock(), SystemChance())


def encoded(record: Any) -> Any:
    return json.loads(msgspec.json.encode(record))


def asked(sides: Sides, path: str, method: str = "GET", body: Any = None) -> Any:
    named = "/".join(sides._named(path.split("/"), 0))
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(sides.url + named, data, method=method)
    request.add_header("authorization", f"Bearer {sides.key}")
    request.add_header("content-type", "application/json")
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def printed(sides: Sides, command: tuple[str, ...]) -> Any:
    done = sides.store(*command, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)
