"""Every change over HTTP is in the audit trail with its actor."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from duly import every
from duly.testing import VirtualClock
from tests.http.ports import Port, port
from tests.http.protocol.test_routes import READ_BY_POST, READING, all_methods

pytestmark = pytest.mark.requirement("S2")
SPEC = {"rule": {"every": "1h"}, "target": "work"}
SHOP = {"name": "shop", "url": "https://shop.example/hook"}
SINCE = {"since": "2026-07-31T00:00:00Z"}
NOTE = {"note": "they are spent"}
POLICY = {"tries": 3, "after": "1h", "then": "hold"}
PAST = {"start": "2026-07-31T00:00:00Z", "end": "2026-07-31T02:00:00Z"}
CHANGES: dict[tuple[str, str], tuple[str, Any, str]] = {
    ("POST", "/v1/deliveries/{id}/retry"): ("{waiting}", None, "delivery.retried"),
    ("POST", "/v1/deliveries/{id}/cancel"): ("{waiting}", None, "delivery.cancelled"),
    ("PUT", "/v1/schedules/{name}"): ("new", SPEC, "schedule.created"),
    ("PATCH", "/v1/schedules/{name}"): ("daily", {"priority": 9}, "schedule.changed"),
    ("POST", "/v1/schedules/{name}/pause"): ("daily", None, "schedule.paused"),
    ("POST", "/v1/schedules/{name}/resume"): ("daily", None, "schedule.resumed"),
    ("POST", "/v1/schedules/{name}/trigger"): ("daily", None, "schedule.run"),
    ("POST", "/v1/schedules/{name}/backfill"): ("daily", PAST, "schedule.run"),
    ("DELETE", "/v1/schedules/{name}"): ("daily", None, "schedule.removed"),
    ("PUT", "/v1/calendars/{name}"): ("nrw", {"weekend": ["sunday"]}, "calendar.created"),
    ("DELETE", "/v1/calendars/{name}"): ("nrw", None, "calendar.removed"),
    ("POST", "/v1/endpoints"): ("", SHOP, "endpoint.added"),
    ("PATCH", "/v1/endpoints/{name}"): ("shop", {"rate": 5}, "endpoint.edited"),
    ("POST", "/v1/endpoints/{name}/pause"): ("shop", None, "endpoint.paused"),
    ("POST", "/v1/endpoints/{name}/resume"): ("shop", None, "endpoint.resumed"),
    ("POST", "/v1/endpoints/{name}/rotate"): ("shop", None, "endpoint.rotated"),
    ("POST", "/v1/endpoints/{name}/recover"): ("shop", SINCE, "dead_letters.retried"),
    ("DELETE", "/v1/endpoints/{name}"): ("shop", None, "endpoint.removed"),
    ("PATCH", "/v1/streams/{name}"): ("line", {"on_failure": "release"}, "stream.configured"),
    ("POST", "/v1/streams/{name}/pause"): ("line", None, "stream.paused"),
    ("POST", "/v1/streams/{name}/resume"): ("line", None, "stream.resumed"),
    ("POST", "/v1/streams/{name}/retry"): ("line", None, "stream.retried"),
    ("POST", "/v1/streams/{name}/cancel"): ("line", None, "delivery.cancelled"),
    ("POST", "/v1/streams/{name}/dead-letter"): ("line", None, "stream.dead_lettered"),
    ("POST", "/v1/batches"): ("", {"then": {"target": "work"}}, "batch.opened"),
    ("POST", "/v1/batches/{id}/close"): ("{batch}", None, "batch.closed"),
    ("POST", "/v1/batches/{id}/cancel"): ("{batch}", None, "batch.cancelled"),
    ("POST", "/v1/dead-letters/{id}/hold"): ("{first}", NOTE, "dead_letter.held"),
    ("POST", "/v1/dead-letters/{id}/release"): ("{first}", None, "dead_letter.released"),
    ("POST", "/v1/dead-letters/{id}/give-up"): ("{fourth}", NOTE, "dead_letter.given_up"),
    ("POST", "/v1/dead-letters/hold"): ("", SINCE | NOTE, "dead_letters.held"),
    ("POST", "/v1/dead-letters/release"): ("", SINCE, "dead_letters.released"),
    ("POST", "/v1/dead-letters/give-up"): (
        "",
        {"tag": "none"} | NOTE,
        "dead_letters.given_up",
    ),
    ("POST", "/v1/dead-letters/{id}/retry"): ("{first}", None, "dead_letter.retried"),
    ("POST", "/v1/dead-letters/{id}/edit"): ("{second}", {"payload": 1}, "dead_letter.edited"),
    ("POST", "/v1/dead-letters/{id}/discard"): ("{third}", NOTE, "dead_letter.discarded"),
    ("POST", "/v1/dead-letters/retry"): ("", SINCE, "dead_letters.retried"),
    ("POST", "/v1/dead-letters/discard"): ("", SINCE | NOTE, "dead_letters.discarded"),
    ("PUT", "/v1/recovery/policies/{reason}"): ("unknown", POLICY, "recovery_policy.set"),
    ("DELETE", "/v1/recovery/policies/{reason}"): ("unknown", None, "recovery_policy.removed"),
    ("POST", "/v1/recovery/generations"): ("", {"generation": "v1"}, "generation.replayed"),
    ("POST", "/v1/workers/{id}/drain"): ("{worker}", None, "worker.drained"),
    ("POST", "/v1/workers/{id}/resume"): ("{worker}", None, "worker.resumed"),
    ("POST", "/v1/keys"): ("", {"name": "made"}, "key.created"),
    ("POST", "/v1/keys/{id}/revoke"): ("{key}", None, "key.revoked"),
}
"""For each change: the name, the body and the audited action; in this order."""
NOT_AUDITED = {
    # Sessions are audited under their key, in test_session; bulk moves by delivery or schedule.
    ("POST", "/v1/session"),
    ("DELETE", "/v1/session"),
    ("POST", "/v1/deliveries/cancel"),
    ("POST", "/v1/deliveries/retry"),
    ("POST", "/v1/schedules/pause"),
    ("POST", "/v1/schedules/resume"),
    ("POST", "/v1/orphaned-schedules/remove"),
    # An accepted delivery is its own record.
    ("POST", "/v1/deliveries"),
    ("POST", "/v1/deliveries/bulk"),
    # Audited as the release of its stream; tested there.
    ("POST", "/v1/deliveries/{id}/release"),
    # Tested with the streams: it needs a failed head.
    ("POST", "/v1/streams/{name}/release"),
    # Sent at once, and not stored.
    ("POST", "/v1/endpoints/{name}/test"),
}


@pytest.fixture
async def public(sqlite_url: str, clock: VirtualClock) -> AsyncIterator[Port]:
    async with port(sqlite_url, clock, host="0.0.0.0") as found:
        yield found


async def test_every_change_is_audited_with_its_actor(public: Port, clock: VirtualClock) -> None:
    admin = await public.token("admin")
    actor = f"key:{admin.split('_')[1]}"
    ids = {
        "waiting": (await public.app.deliver("work", after=60)).id,
        "worker": await public.app.store.workers.register("host:1", 12.0, 7, ["work"]),
        "batch": (await public.app.batches.open("work")).id,
        "key": (await public.app.keys.create("spent")).id,
    }
    for name in ("first", "second", "third", "fourth"):
        ids[name] = (await public.app.deliver("work", stream=name, after=60)).id
        await public.app.streams.dead_letter_head(name)
    await public.app.schedule("daily", every("1h"), "work")
    for _ in range(2):
        await public.app.deliver("work", stream="line", after=60)
    for (method, path), (name, body, action) in CHANGES.items():
        place = (
            path.replace("{id}", name)
            .replace("{name}", name)
            .replace("{reason}", name)
            .format(**ids)
        )
        given = {} if body is None else {"json": body}
        answer = await public.request(place, method, key=admin, **given)
        assert answer.status_code < 300, (method, path, answer.text)
        (latest, *_) = await public.app.audit.list(limit=1)
        assert (latest.actor, latest.action) == (actor, action), (method, path)
        assert latest.done_at == clock.now()


async def test_every_changing_route_is_listed_here(public: Port) -> None:
    found = {
        (each.method, each.path)
        for each in all_methods(public)
        if each.method not in READING | {"OPTIONS"} and each.path not in READ_BY_POST
    }
    assert found == CHANGES.keys() | NOT_AUDITED
