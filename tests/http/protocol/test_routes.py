"""Authentication of every route and method of the site, including new ones."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import pytest

from duly import App, every, per
from duly.testing import VirtualClock
from tests.http.ports import DASHBOARD, Port, port

pytestmark = pytest.mark.requirement("S2")
OPEN = DASHBOARD | {"/", "/docs", "/docs/openapi.json", "/health", "/openapi.json", "/ready"}
OPEN_SESSION = {("POST", "/v1/session"), ("DELETE", "/v1/session")}
"""Logging in and out: a session starts with a key, and ends with its cookie."""
"""Paths that need no key."""
READ_BY_POST = {"/v1/schedules/explain"}
"""POST requests that change nothing."""
ENDLESS = {"/v1/events"}
"""Event streams, which do not end; they are not requested with a valid key."""
FOR_ADMINS = ("/v1/keys", "/v1/audit")
READING = {"GET", "HEAD"}
UNKNOWN = "01980000-0000-7000-8000-000000000000"


class RouteMethod(NamedTuple):
    """One method of one path; `path` has its parameters in braces."""

    path: str
    method: str
    takes_body: bool

    def at(self, named: dict[str, str]) -> str:
        """The path with the name of a record instead of its parameter."""
        place = "/".join(self.path.split("/")[:3])
        if "{" in self.path:
            assert place in named, f"add the name of a record under {place} below"
        return re.sub(r"\{[^}]+\}", named.get(place, ""), self.path)


def all_methods(port: Port) -> Iterator[RouteMethod]:
    for route in port.site.routes:
        yield RouteMethod(route.path, route.method, route.body is not None)
    for path in sorted({route.path for route in port.site.routes}):
        yield RouteMethod(path, "OPTIONS", False)


@pytest.fixture
async def public(database_url: str, clock: VirtualClock) -> AsyncIterator[Port]:
    async with port(database_url, clock, host="0.0.0.0") as found:
        yield found


@pytest.fixture
async def small(sqlite_url: str, clock: VirtualClock) -> AsyncIterator[Port]:
    async with port(sqlite_url, clock, host="0.0.0.0") as found:
        yield found


async def test_every_route_needs_a_key(small: Port) -> None:
    walked = list(all_methods(small))
    assert len(walked) > 15
    for each in walked:
        answer = await small.request(each.at(ANYTHING), each.method)
        if (each.method, each.path) in OPEN_SESSION:
            assert answer.status_code in (204, 400), each
        elif each.path in OPEN:
            assert answer.status_code in (200, 503) or each.method == "OPTIONS", each
        else:
            assert answer.status_code == 401, each
            assert answer.headers["www-authenticate"] == 'Bearer realm="duly"'


async def test_the_scope_read_changes_nothing(small: Port) -> None:
    read, before = await small.token("read"), await small.app.audit.list()
    for each in all_methods(small):
        if each.path in ENDLESS:
            continue
        status = await small.status(each.at(ANYTHING), each.method, key=read)
        # OPTIONS only lists the methods.
        if each.path in OPEN | READ_BY_POST or each.method == "OPTIONS":
            continue
        if (each.method, each.path) in OPEN_SESSION:
            continue
        if each.method not in READING or each.path.startswith(FOR_ADMINS):
            assert status == 403, each
        else:
            assert status != 403, each
    assert await small.app.audit.list() == before


async def test_keys_and_the_audit_trail_need_the_scope_admin(small: Port) -> None:
    operate, admin = await small.token("operate"), await small.token("admin")
    for each in all_methods(small):
        if each.path.startswith(FOR_ADMINS) and each.method != "OPTIONS":
            path = each.at(ANYTHING)
            assert await small.status(path, each.method, key=operate) == 403, each
            assert await small.status(path, each.method, key=admin) not in (401, 403), each


async def test_records_of_another_namespace_are_404(public: Port) -> None:
    theirs = public.app.within("billing")
    named = await fill_store(theirs)
    ours, other = await public.token("admin"), await public.token("admin", "billing")
    before = await everything(theirs)
    for each in all_methods(public):
        if "{" not in each.path or each.method == "OPTIONS":
            continue
        # No PUT takes this body.
        given = {"weekend": []} if each.method == "PUT" else {}
        path, body = each.at(named), {"json": given} if each.takes_body else {}
        status = await public.status(path, each.method, key=ours, **body)
        # A body is checked first, and a PUT creates a record in the caller's own namespace.
        assert status in ((404, 422) if each.takes_body else (404,)), each
        assert await everything(theirs) == before, each
        if each.method == "GET":
            assert await public.status(path, key=other) == 200, each


async def test_lists_have_only_the_callers_namespace(public: Port) -> None:
    named = await fill_store(public.app.within("billing"))
    ours = await public.token("admin")
    for each in all_methods(public):
        is_list = each.method == "GET" and "{" not in each.path and each.path.startswith("/v1/")
        if not is_list or each.path in ENDLESS:
            continue
        answer = await public.request(each.path, key=ours)
        assert answer.status_code == 200, each
        for name in (*named.values(), "their-worker"):
            assert name.isdecimal() or name not in answer.text, each


async def fill_store(app: App) -> dict[str, str]:
    """Store one record of each kind; returns their names by the beginning of their paths."""
    app.expect("work")
    delivery = await app.deliver("work", {"of": "theirs"}, stream="their-stream", after=60)
    hook, limits = "https://theirs.example/hook", per("customer", rate=2)
    await app.endpoints.add("their-endpoint", hook, rate=7, limits=limits)
    await app.schedule("their-schedule", every("1h"), "work")
    await app.calendars.set("their-calendar")
    made = await app.keys.create("their-key")
    batch = await app.batches.open("work", name="their-batch")
    await app.recovery.set("timeout_exceeded", tries=1, then="hold")
    worker = await app.store.workers.register("their-worker", 12.0, 7, ["work"])
    return {
        "/v1/deliveries": delivery.id,
        "/v1/streams": "their-stream",
        "/v1/endpoints": "their-endpoint",
        "/v1/schedules": "their-schedule",
        "/v1/calendars": "their-calendar",
        "/v1/keys": made.id,
        "/v1/batches": batch.id,
        "/v1/dead-letters": delivery.id,
        "/v1/workers": str(worker),
        "/v1/recovery": "timeout_exceeded",
        "/v1/limits": "endpoint:their-endpoint",
    }


ANYTHING = dict.fromkeys(
    (
        *("/v1/deliveries", "/v1/streams", "/v1/endpoints", "/v1/schedules", "/v1/keys"),
        *("/v1/dead-letters", "/v1/workers", "/v1/recovery", "/v1/calendars", "/v1/batches"),
        "/v1/limits",
    ),
    UNKNOWN,
)


async def everything(app: App) -> list[Any]:
    """Everything that can be changed over HTTP."""
    # The time of last use changes with each request.
    keys = [each for each in await app.keys.list() if each.name == "their-key"]
    return [
        await app.list(),
        await app.endpoints.list(),
        await app.streams.list(),
        await app.batches.list(),
        await app.schedules.list(),
        await app.workers.list(),
        await app.recovery.policies(),
        await app.recovery.generations(),
        keys,
        await app.audit.list(),
    ]
