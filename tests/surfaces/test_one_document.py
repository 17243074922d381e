"""Each resource is one document: what the API answers is what `--json` prints.

`test_remote.py` compares `--json` on a store with `--json` through a server; this compares it with
the API itself, and both with the records of Python and of the client.
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
from duly.errors import Conflict
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
Asked = tuple[str, str, Any, tuple[str, ...], Callable[[Any], Awaitable[Any]]]
SECRET = f"whsec_{'A' * 43}="
RECORDS: dict[str, Asked] = {
    "endpoint": (
        *("GET", "endpoints/shut", None),
        ("endpoints", "show", "shut"),
        lambda app: app.endpoints.get("shut"),
    ),
    "endpoints": (
        *("GET", "endpoints?limit=3", None),
        ("endpoints", "list", "--limit", "3"),
        lambda app: app.endpoints.list(limit=3),
    ),
    "edited endpoint": (
        *("PATCH", "endpoints/shut", {"rate": 7, "header_changes": {"X-Token": "t"}}),
        ("endpoints", "edit", "shut", "--rate", "7", "-H", "X-Token: t"),
        lambda app: app.endpoints.edit("shut", rate=7, header_changes={"X-Token": "t"}),
    ),
    "paused endpoint": (
        *("POST", "endpoints/shut/pause", {"reason": "it moves"}),
        ("endpoints", "pause", "shut", "--reason", "it moves"),
        lambda app: app.endpoints.pause("shut", "it moves"),
    ),
    "rotated endpoint": (
        *("POST", "endpoints/shut/rotate", {"secret": SECRET, "overlap_seconds": 0}),
        ("endpoints", "rotate", "shut", "--secret", SECRET, "--overlap", "0s"),
        lambda app: app.endpoints.rotate("shut", secret=SECRET, overlap=timedelta()),
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
    items = {name: content(each) for name, each in forms.items()}
    assert items == dict.fromkeys(items, items["API"])


@pytest.mark.requirement("C10")
async def test_an_outdated_change_of_an_endpoint_is_refused_by_both(sides: Sides) -> None:
    async with sides.home.app() as app:
        for each in (app, client_of(sides)):
            version = (await each.endpoints.get("shut")).version
            for change in (each.endpoints.edit, each.endpoints.remove):
                with pytest.raises(Conflict, match=f"is at version {version}, and not at"):
                    await change("shut", version=version + 1)
            assert (await each.endpoints.edit("shut", rate=9, version=version)).rate == 9
            assert (await each.endpoints.edit("shut", rate=5)).version == version + 2


def content(document: Any) -> Any:
    return document.get("items", document) if isinstance(document, dict) else document


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
