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

from duly import Conflict, yearly
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
LISTED = ({"late_seconds"}, {"late_by", "payload"})
DIFFERENT: dict[str, tuple[set[str], set[str]]] = {
    "delivery": ({"late_seconds", "transitions"}, {"late_by"}),
    "dead letter": ({"late_seconds", "transitions"}, {"late_by"}),
    "deliveries": LISTED,
    "dead letters": LISTED,
}
"""Fields that only the API has, and only `--json`. To be emptied: no field should differ."""
Asked = tuple[str, str, Any, tuple[str, ...], Callable[[Any], Awaitable[Any]]]
PAST: dict[str, Any] = {
    "start": "2026-01-01T00:00:00Z",
    "end": "2026-01-01T05:00:00Z",
    "dry_run": True,
}
FROM_TO = ("--from", PAST["start"], "--to", PAST["end"])
ADDED = ("schedules", "add", "same", "log", '{"n":1}', "--yearly", "12-24", "--tag", "red")
RECORDS: dict[str, Asked] = {
    "schedule": (
        *("GET", "schedules/every", None),
        ("schedules", "show", "every"),
        lambda app: app.schedules.get("every"),
    ),
    "schedules": (
        *("GET", "schedules?limit=2", None),
        ("schedules", "list", "--limit", "2"),
        lambda app: app.schedules.list(limit=2),
    ),
    "upcoming runs": (
        *("GET", "schedules/cron/preview", None),
        ("schedules", "preview", "cron"),
        lambda app: app.schedules.preview("cron"),
    ),
    "declared schedule": (
        *("PUT", "schedules/same"),
        {"rule": {"yearly": "12-24"}, "target": "log", "payload": {"n": 1}, "tags": ["red"]},
        ADDED,
        lambda app: app.schedules.declare("same", yearly(12, 24), "log", {"n": 1}, tags=["red"]),
    ),
    "paused schedule": (
        *("POST", "schedules/leap/pause", {"reason": "it snows"}),
        ("schedules", "pause", "leap", "--reason", "it snows"),
        lambda app: app.schedules.pause("leap", "it snows"),
    ),
    "resumed schedule": (
        *("POST", "schedules/leap/resume", {}),
        ("schedules", "resume", "leap"),
        lambda app: app.schedules.resume("leap"),
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
    items = {name: items_of(each) for name, each in forms.items()}
    assert items == dict.fromkeys(items, items["API"])


@pytest.mark.requirement("C10")
def test_what_a_schedule_is_made_to_do_is_the_same_document(sides: Sides) -> None:
    for method, path, body, command in (
        ("POST", "trigger", None, ("trigger", "cron")),
        ("POST", "backfill", PAST, ("backfill", "cron", "--dry-run", *FROM_TO)),
    ):
        api = asked(sides, f"/v1/schedules/cron/{path}", method, body)
        assert api.keys() == printed(sides, ("schedules", *command)).keys()


@pytest.mark.requirement("C10")
async def test_a_client_changes_a_schedule_only_at_the_version_that_it_names(sides: Sides) -> None:
    schedules, rule = client_of(sides).schedules, yearly(12, 25)
    assert (await schedules.declare("own", rule, "log", version=0)).change == "created"
    for version in (0, 7):
        with pytest.raises(Conflict):
            await schedules.declare("own", rule, "log", {"n": 2}, version=version)
    changed = await schedules.declare("own", rule, "log", {"n": 2}, version=1)
    assert (changed.version, changed.payload) == (2, {"n": 2})
    with pytest.raises(Conflict):
        await schedules.remove("own", version=1)
    await schedules.remove("own", version=2)


def client_of(sides: Sides) -> Remote:
    return Remote(sides.url, sides.key, SystemClock(), SystemChance())


def items_of(document: Any) -> Any:
    """A list without its envelope; Python and the preview have none."""
    return document["items"] if isinstance(document, dict) and "items" in document else document


def encoded(record: Any) -> Any:
    return json.loads(msgspec.json.encode(record))


def asked(sides: Sides, path: str, method: str = "GET", body: Any = None) -> Any:
    named = "/".join(sides._named(path.split("/"), 0))
    data = None if body is None else msgspec.json.encode(body)
    request = urllib.request.Request(sides.url + named, data, method=method)
    request.add_header("authorization", f"Bearer {sides.key}")
    request.add_header("content-type", "application/json")
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def printed(sides: Sides, command: tuple[str, ...]) -> Any:
    done = sides.store(*command, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)
