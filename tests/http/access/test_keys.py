"""Keys and the audit trail over HTTP."""

from collections.abc import AsyncIterator

import pytest

from duly.testing import VirtualClock
from tests.http.ports import Port, port

pytestmark = pytest.mark.requirement("S2")


@pytest.fixture
async def public(database_url: str, clock: VirtualClock) -> AsyncIterator[Port]:
    async with port(database_url, clock, host="0.0.0.0") as found:
        yield found


async def test_an_admin_creates_and_revokes_keys(public: Port, clock: VirtualClock) -> None:
    admin = await public.token("admin", "billing")
    wanted = {"name": "shop", "scope": "operate", "expires_at": "2030-01-01T00:00:00Z"}
    made = await public.request("/v1/keys", "POST", key=admin, json=wanted)
    assert made.status_code == 201
    key = made.json()
    assert wanted.items() <= key.items()
    assert (key["namespace"], key["state"]) == ("billing", "active")
    assert await public.status("/v1/workers", key=key["token"]) == 200

    shown = await public.request(f"/v1/keys/{key['id']}", key=admin)
    assert "token" not in shown.json()
    assert shown.json()["last_used_at"] is not None
    revoked = await public.request(f"/v1/keys/{key['id']}/revoke", "POST", key=admin)
    assert (revoked.status_code, revoked.json()["state"]) == (200, "revoked")
    clock.advance(1)
    assert await public.status("/v1/workers", key=key["token"]) == 401


async def test_the_audit_trail_has_the_actor(public: Port) -> None:
    admin = await public.token("admin")
    made = (await public.request("/v1/keys", "POST", key=admin, json={"name": "shop"})).json()
    await public.request(f"/v1/keys/{made['id']}/revoke", "POST", key=admin)
    entries = (await public.request("/v1/audit", key=admin)).json()["items"]
    actor = f"key:{admin.split('_')[1]}"
    assert [(each["actor"], each["action"], each["subject"]) for each in entries[:2]] == [
        (actor, "key.revoked", made["id"]),
        (actor, "key.created", made["id"]),
    ]
    assert made["token"] not in repr(entries)


async def test_the_token_of_a_key_is_shown_only_once(public: Port) -> None:
    asked = {
        "key": await public.token("admin"),
        "headers": {"idempotency-key": "first"},
        "json": {"name": "shop"},
    }
    made = (await public.request("/v1/keys", "POST", **asked)).json()
    repeated = await public.request("/v1/keys", "POST", **asked)
    assert repeated.status_code == 409
    assert made["token"] not in repeated.text
    assert len(await public.app.keys.list()) == 2


async def test_a_caller_without_a_key_is_audited_as_loopback(
    sqlite_url: str, clock: VirtualClock
) -> None:
    async with port(sqlite_url, clock) as here:
        await here.request("/v1/keys", "POST", peer="127.0.0.1", json={"name": "first"})
        (entry,) = await here.app.audit.list()
    assert entry.actor == "loopback"


async def test_lists_come_in_pages(public: Port) -> None:
    admin = await public.token("admin")
    for n in range(4):
        await public.app.keys.create(f"key {n}")
    for path, name in (("/v1/keys", "name"), ("/v1/audit", "subject")):
        whole = (await public.request(path, key=admin)).json()
        assert (len(whole["items"]), whole["next"]) == (5, None)
        first = (await public.request(f"{path}?limit=3", key=admin)).json()
        rest = (await public.request(f"{path}?limit=3&cursor={first['next']}", key=admin)).json()
        assert (len(first["items"]), rest["next"]) == (3, None)
        assert first["items"] + rest["items"] == whole["items"]
        assert len({each[name] for each in whole["items"]}) == 5


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/keys?limit=0", "limit"),
        ("/v1/keys?cursor=%00", "cursor"),
        ("/v1/keys?page=2", "body"),
        ("/v1/audit?cursor=-1", "cursor"),
        ("/v1/audit?cursor=banana", "cursor"),
        ("/v1/audit?cursor=99999999999999999999999", "cursor"),
    ],
)
async def test_invalid_parameters_of_a_page_are_refused(
    sqlite_url: str, clock: VirtualClock, path: str, field: str
) -> None:
    async with port(sqlite_url, clock) as here:
        answer = await here.request(path, peer="127.0.0.1")
    assert answer.status_code == 422
    assert answer.json()["field"] == field


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "a\0b"},
        {"name": "x", "scope": "root"},
        {"name": "x", "expires_at": "2001-01-01T00:00:00Z"},
        {"name": "x", "namespace": "billing"},
    ],
)
async def test_an_invalid_key_is_refused(
    sqlite_url: str, clock: VirtualClock, body: dict[str, str]
) -> None:
    async with port(sqlite_url, clock) as here:
        assert await here.status("/v1/keys", "POST", peer="127.0.0.1", json=body) == 422
        assert await here.app.keys.list() == []
