"""Each resource is the same document in all its forms.

The answer of the API equals the output of `--json`, on a store and through a server, and the
encoded records of an App and of a client.
"""

import json
import shlex
import urllib.request
from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from typing import Any

import msgspec
import pytest

from duly import Client, Conflict, yearly
from tests.surfaces.sides import Sides

pytestmark = pytest.mark.requirement("C10", "P17")
Call = Callable[[Any, Callable[[str], str]], Awaitable[Any]]
SECRET = f"whsec_{'A' * 43}="
SAME = {"rule": {"yearly": "12-24"}, "target": "log", "payload": {"n": 1}, "tags": ["red"]}
RECORDS: dict[str, tuple[str, Any, str, Call]] = {
    "delivery": (
        *("GET deliveries/<pending>", None, "deliveries show <pending>"),
        lambda app, id_of: app.deliveries.detail(id_of("pending")),
    ),
    "dead letter": (
        *("GET deliveries/<dead>", None, "deliveries show <dead>"),
        lambda app, id_of: app.deliveries.detail(id_of("dead")),
    ),
    "deliveries": (
        *("GET deliveries?limit=5", None, "deliveries list --limit 5"),
        lambda app, _: app.deliveries.list(limit=5, payloads=False),
    ),
    "schedules with a text in their name": (
        *("GET schedules?text=EVER&limit=5", None, "schedules list --text EVER --limit 5"),
        lambda app, _: app.schedules.list(text="EVER", limit=5),
    ),
    "page of deliveries": (
        *("GET deliveries?limit=5&state=dead", None, "deliveries list --limit 5 --state dead"),
        lambda app, _: app.deliveries.page(limit=5, state="dead", payloads=False),
    ),
    "deliveries with payloads": (
        *("GET deliveries?limit=5&payloads=true", None, "deliveries list --limit 5 --payloads"),
        lambda app, _: app.deliveries.list(limit=5),
    ),
    "late deliveries": (
        *("GET deliveries/late?grace=0", None, "late --grace 0s"),
        lambda app, _: app.stats.late(timedelta(), payloads=False),
    ),
    "stuck deliveries": (
        *("GET deliveries/stuck", None, "stuck"),
        lambda app, _: app.stats.stuck(timedelta(minutes=5), payloads=False),
    ),
    "confirmation": (
        "POST deliveries",
        {"target": "log", "payload": 1, "after": 3600.0, "key": "once"},
        "deliver log 1 --after 1h --key once",
        lambda app, _: app.deliver("log", 1, after=3600, key="once"),
    ),
    "dead letters": (
        *("GET dead-letters?limit=5&payloads=true", None, "dead list --limit 5 --payloads"),
        lambda app, _: app.dead_letters.list(limit=5),
    ),
    "groups": (
        *("GET dead-letters/groups", None, "dead groups"),
        lambda app, _: app.dead_letters.groups(),
    ),
    "schedule": (
        *("GET schedules/every", None, "schedules show every"),
        lambda app, _: app.schedules.get("every"),
    ),
    "schedules": (
        *("GET schedules?limit=2", None, "schedules list --limit 2"),
        lambda app, _: app.schedules.list(limit=2),
    ),
    "orphaned schedules": (
        *("GET orphaned-schedules", None, "schedules orphans"),
        lambda app, _: app.schedules.orphans(),
    ),
    "upcoming runs": (
        *("GET schedules/cron/preview", None, "schedules preview cron"),
        lambda app, _: app.schedules.preview("cron"),
    ),
    "declared schedule": (
        "PUT schedules/same",
        SAME,
        """schedules add same log '{"n":1}' --yearly 12-24 --tag red""",
        lambda app, _: app.schedules.declare("same", yearly(12, 24), "log", {"n": 1}, tags=["red"]),
    ),
    "paused schedule": (
        "POST schedules/leap/pause",
        {"reason": "it snows"},
        "schedules pause leap --reason 'it snows'",
        lambda app, _: app.schedules.pause("leap", "it snows"),
    ),
    "resumed schedule": (
        *("POST schedules/leap/resume", {}, "schedules resume leap"),
        lambda app, _: app.schedules.resume("leap"),
    ),
    "schedule with a calendar": (
        *("GET schedules/ninth", None, "schedules show ninth"),
        lambda app, _: app.schedules.get("ninth"),
    ),
    "upcoming runs that a calendar moves": (
        *("GET schedules/ninth/preview?n=12", None, "schedules preview ninth -n 12"),
        lambda app, _: app.schedules.preview("ninth", 12),
    ),
    "calendar": (
        *("GET calendars/nrw", None, "calendars show nrw"),
        lambda app, _: app.calendars.get("nrw"),
    ),
    "calendars": (
        *("GET calendars", None, "calendars list"),
        lambda app, _: app.calendars.list(),
    ),
    "changed calendar": (
        "PUT calendars/same",
        {"closed": {"2096-01-01": "New year"}, "weekend": ["friday"]},
        "calendars set same --closed '2096-01-01=New year' --weekend friday",
        lambda app, _: app.calendars.set(
            "same", {date(2096, 1, 1): "New year"}, weekend=["friday"]
        ),
    ),
    "endpoint": (
        *("GET endpoints/shut", None, "endpoints show shut"),
        lambda app, _: app.endpoints.get("shut"),
    ),
    "endpoints": (
        *("GET endpoints?limit=3", None, "endpoints list --limit 3"),
        lambda app, _: app.endpoints.list(limit=3),
    ),
    "limit": (
        *("GET limits/endpoint:shut", None, "limits show endpoint:shut"),
        lambda app, _: app.limits.get("endpoint:shut"),
    ),
    "limit keys": (
        *("GET limits/endpoint:failing-north/keys", None, "limits keys endpoint:failing-north"),
        lambda app, _: app.limits.keys("endpoint:failing-north"),
    ),
    "limits": (
        *("GET limits", None, "limits list"),
        lambda app, _: app.limits.list(),
    ),
    "edited endpoint": (
        "PATCH endpoints/shut",
        {"rate": 7, "header_changes": {"X-Token": "t"}},
        "endpoints edit shut --rate 7 -H 'X-Token: t'",
        lambda app, _: app.endpoints.edit("shut", rate=7, header_changes={"X-Token": "t"}),
    ),
    "paused endpoint": (
        "POST endpoints/shut/pause",
        {"reason": "it moves"},
        "endpoints pause shut --reason 'it moves'",
        lambda app, _: app.endpoints.pause("shut", "it moves"),
    ),
    "rotated endpoint": (
        "POST endpoints/shut/rotate",
        {"secret": SECRET, "overlap_seconds": 0},
        f"endpoints rotate shut --secret {SECRET} --overlap 0s",
        lambda app, _: app.endpoints.rotate("shut", secret=SECRET, overlap=timedelta()),
    ),
    "stream": (
        *("GET streams/paused", None, "streams show paused"),
        lambda app, _: app.streams.get("paused"),
    ),
    "streams": (
        *("GET streams?limit=3", None, "streams list --limit 3"),
        lambda app, _: app.streams.list(limit=3),
    ),
    "configured stream": (
        "PATCH streams/new",
        {"on_failure": "release"},
        "streams configure new --on-failure release",
        lambda app, _: app.streams.configure("new", on_failure="release"),
    ),
    "stream with a limit": (
        "PATCH streams/limited",
        {"block_for": 900},
        "streams configure limited --block-for 15m",
        lambda app, _: app.streams.configure("limited", block_for="15m"),
    ),
    "batch": (
        *("GET batches/<batch>", None, "batches show <batch>"),
        lambda app, id_of: app.batches.get(id_of("batch")),
    ),
    "batches": (
        *("GET batches?limit=3", None, "batches list --limit 3"),
        lambda app, _: app.batches.list(limit=3),
    ),
    "closed batch": (
        *("POST batches/<batch>/close", {}, "batches close <batch>"),
        lambda app, id_of: app.batches.close(id_of("batch")),
    ),
    "workers": (*("GET workers", None, "workers"), lambda app, _: app.workers.list()),
    "drained worker": (
        *("POST workers/<worker>/drain", {}, "workers drain <worker>"),
        lambda app, id_of: app.workers.drain(int(id_of("worker"))),
    ),
    "resumed worker": (
        *("POST workers/<worker>/resume", {}, "workers resume <worker>"),
        lambda app, id_of: app.workers.resume(int(id_of("worker"))),
    ),
    "keys": (*("GET keys", None, "keys list"), lambda app, _: app.keys.list()),
    "alerts": (*("GET alerts", None, "alerts --all"), lambda app, _: app.alerts.list()),
    "audit": (
        *("GET audit?limit=5", None, "audit --limit 5"),
        lambda app, _: app.audit.list(limit=5),
    ),
    "status": (*("GET status", None, "status"), lambda app, _: app.stats.status()),
    "failures": (*("GET stats/failures", None, "stats"), lambda app, _: app.stats()),
}
"""For each record: the request, the command, and the call of an App or a client."""
VARYING = {
    "alerts": {"seen_at", "detail"},
    "failures": {"at", "since"},
    "keys": {"last_used_at"},
    "status": {"planner_lag"},
    **{name: {"beat_at"} for name in ("workers", "drained worker", "resumed worker")},
}
"""Fields whose values change with time."""
FIELDS: dict[str, tuple[str, Any, str]] = {
    "series": ("GET stats/series", None, "stats --series"),
    "series of a target": (
        *("GET stats/series?target=log", None),
        "stats --series --target log",
    ),
    "bulk cancel": (
        "POST deliveries/cancel",
        {"target": "log", "dry_run": True},
        "deliveries cancel --target log --dry-run",
    ),
    "bulk retry": (
        "POST deliveries/retry",
        {"all": True, "dry_run": True},
        "deliveries retry --all --dry-run",
    ),
    "bulk pause": (
        "POST schedules/pause",
        {"text": "e", "dry_run": True},
        "schedules pause --text e --dry-run",
    ),
    "bulk resume": (
        "POST schedules/resume",
        {"all": True, "dry_run": True},
        "schedules resume --all --dry-run",
    ),
    "outages": ("GET stats/outages", None, "outages"),
    "top": ("GET stats/top", None, "top"),
    "trigger": ("POST schedules/cron/trigger", None, "schedules trigger cron"),
    "backfill": (
        "POST schedules/cron/backfill",
        {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T05:00:00Z", "dry_run": True},
        "schedules backfill cron --dry-run --from 2026-01-01T00:00:00Z --to 2026-01-01T05:00:00Z",
    ),
    "new key": ("POST keys", {"name": "ann"}, "keys create ann"),
    "bulk move": (
        "POST dead-letters/retry",
        {"all": True, "dry_run": True},
        "dead retry --all --dry-run",
    ),
}
"""Records that are new each time or change with time: only their fields are compared."""


@pytest.mark.parametrize("resource", RECORDS)
async def test_all_forms_of_a_record_are_the_same_document(sides: Sides, resource: str) -> None:
    request, body, command, call = RECORDS[resource]
    # Only the first request changes anything.
    requested(sides, request, body)
    forms = {
        "API": requested(sides, request, body),
        "store": printed(sides, command),
        "server": printed(sides, command, server=True),
    }
    async with sides.home.app() as app, client_of(sides) as client:
        for name, each in (("App", app), ("client", client)):
            forms[name] = encoded(await call(each, lambda name: sides.names[name][0]))
    varying = VARYING.get(resource, set())
    steady = {name: without(varying, each) for name, each in forms.items()}
    assert steady["API"]
    assert steady == dict.fromkeys(steady, steady["API"])


@pytest.mark.parametrize("resource", FIELDS)
def test_records_that_change_have_the_same_fields(sides: Sides, resource: str) -> None:
    request, body, command = FIELDS[resource]
    assert requested(sides, request, body).keys() == printed(sides, command).keys()


async def test_records_without_a_command_are_the_same_for_an_app_and_a_client(sides: Sides) -> None:
    (key, _) = sides.names["key"]
    async with sides.home.app() as app, client_of(sides) as client:
        assert await client.keys.get(key) == await app.keys.get(key)
        (first, *_) = alerts = await app.alerts.list()
        assert await client.alerts.list(before=first.id) == alerts[1:]
        ours, theirs = await app.dead_letters.page(limit=2), await client.dead_letters.page(limit=2)
        assert (ours.items, ours.next) == (theirs.items, theirs.next)
        here, there = await app.stats.overview(), await client.stats.overview()
        assert encoded(here).keys() == encoded(there).keys()
        assert here.now.dead == there.now.dead > 0
        counted = await app.deliveries.counts()
        assert await client.deliveries.counts() == counted
        assert encoded(counted) == requested(sides, "GET deliveries/counts", None)
        assert counted.states["dead"] == here.now.dead
        assert await client.deliveries.count() == await app.deliveries.count() > 0
        assert await client.schedules.count() == await app.schedules.count() > 0


async def test_a_change_at_another_version_is_a_conflict_for_an_app_and_a_client(
    sides: Sides,
) -> None:
    async with sides.home.app() as app, client_of(sides) as client:
        for each in (app, client):
            version = (await each.endpoints.get("shut")).version
            for change in (each.endpoints.edit, each.endpoints.remove):
                with pytest.raises(Conflict, match=f"is at version {version}, and not at"):
                    await change("shut", version=version + 1)
            assert (await each.endpoints.edit("shut", rate=9, version=version)).rate == 9
            await each.endpoints.edit("shut", rate=5)
        for each in (app, client):
            await declare_at_versions(each.schedules)


async def declare_at_versions(schedules: Any) -> None:
    rule = yearly(12, 25)
    assert (await schedules.declare("own", rule, "log", version=0)).change == "created"
    for version in (0, 7):
        with pytest.raises(Conflict):
            await schedules.declare("own", rule, "log", {"n": 2}, version=version)
    changed = await schedules.declare("own", rule, "log", {"n": 2}, version=1)
    assert (changed.version, changed.payload) == (2, {"n": 2})
    with pytest.raises(Conflict):
        await schedules.remove("own", version=1)
    await schedules.remove("own", version=2)


def client_of(sides: Sides) -> Client:
    return Client(sides.url, key=sides.key)


def without(fields: set[str], document: Any) -> Any:
    """The document, or the items of a list, without these fields."""
    if isinstance(document, list):
        return [without(fields, each) for each in document]
    if "items" in document:
        return without(fields, document["items"])
    return {name: each for name, each in document.items() if name not in fields}


def encoded(record: Any) -> Any:
    return json.loads(msgspec.json.encode(record))


def requested(sides: Sides, request: str, body: Any) -> Any:
    method, path = request.split()
    named = "/".join(sides._named(path.split("/"), 0))
    data = None if body is None else msgspec.json.encode(body)
    http_request = urllib.request.Request(f"{sides.url}/v1/{named}", data, method=method)
    http_request.add_header("authorization", f"Bearer {sides.key}")
    http_request.add_header("content-type", "application/json")
    with urllib.request.urlopen(http_request, timeout=20) as answer:
        return json.load(answer)


def printed(sides: Sides, command: str, *, server: bool = False) -> Any:
    run = sides.server if server else sides.store
    return run(*shlex.split(command), "--json", side=0).document
