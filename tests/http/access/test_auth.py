"""Authentication: keys, scopes, loopback, host names, origins and rate limits."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from duly.domain.access.keys import StoredKey
from duly.errors import BadSetting, StoreUnavailable
from duly.surfaces.http.access.auth import Authenticator, refuse_without_keys
from duly.surfaces.http.access.key_cache import KeyCache
from duly.testing import VirtualClock
from tests.http.ports import Port, port

pytestmark = pytest.mark.requirement("S2")
NEW = {"json": {"target": "work"}}
EVERYWHERE = {"host": "0.0.0.0"}


@pytest.fixture
async def here(sqlite_url: str, clock: VirtualClock) -> AsyncIterator[Port]:
    """A server on loopback."""
    async with port(sqlite_url, clock) as found:
        yield found


@pytest.fixture
async def public(sqlite_url: str, clock: VirtualClock) -> AsyncIterator[Port]:
    """A server that other machines can reach."""
    async with port(sqlite_url, clock, **EVERYWHERE) as found:
        yield found


async def test_on_loopback_no_key_is_needed_even_if_keys_exist(here: Port) -> None:
    assert await here.status("/v1/workers", peer="127.0.0.1") == 200
    await here.token("read")
    for peer in ("127.0.0.1", "::1", "127.9.9.9", "::ffff:127.0.0.1"):
        assert await here.status("/v1/deliveries", "POST", peer=peer, **NEW) == 201


async def test_a_key_given_on_loopback_is_used(here: Port) -> None:
    read = await here.token("read")
    assert await here.status("/v1/workers", peer="127.0.0.1", key=read) == 200
    assert await here.status("/v1/deliveries", "POST", peer="127.0.0.1", key=read, **NEW) == 403
    assert await here.status("/v1/workers", peer="127.0.0.1", key="duly_wrong") == 401


@pytest.mark.parametrize(
    "header", ["Forwarded", "X-Forwarded-For", "X-Real-IP", "Via", "X-Forwarded-Host"]
)
async def test_a_request_from_a_proxy_is_not_local(here: Port, header: str) -> None:
    passed_on = {header: "203.0.113.9"}
    assert await here.status("/v1/workers", peer="127.0.0.1", headers=passed_on) == 401
    read = await here.token("read")
    assert await here.status("/v1/workers", peer="127.0.0.1", headers=passed_on, key=read) == 200


async def test_keys_can_be_required_on_loopback_too(sqlite_url: str, clock: VirtualClock) -> None:
    async with port(sqlite_url, clock, loopback_open=False) as closed:
        assert await closed.status("/v1/workers", peer="127.0.0.1") == 401
        with pytest.raises(BadSetting) as refused:
            await refuse_without_keys(closed.app)
    assert refused.value.field == "loopback_open"


async def test_a_public_server_needs_a_key_even_from_loopback(public: Port) -> None:
    read = await public.token("read")
    for peer in ("127.0.0.1", "203.0.113.7"):
        answer = await public.request("/v1/workers", peer=peer)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Bearer realm="duly"'
        assert answer.headers["content-type"] == "application/problem+json"
        assert await public.status("/v1/workers", peer=peer, key=read) == 200


async def test_a_public_server_does_not_start_without_a_key(
    public: Port, clock: VirtualClock
) -> None:
    with pytest.raises(BadSetting, match="duly keys create NAME --scope admin") as refused:
        await refuse_without_keys(public.app)
    assert refused.value.field == "host"
    await public.app.keys.create("short", expires_at=clock.now() + timedelta(seconds=1))
    await refuse_without_keys(public.app)
    clock.advance(1)
    with pytest.raises(BadSetting):
        await refuse_without_keys(public.app)


async def test_only_a_valid_bearer_key_is_accepted(public: Port) -> None:
    read = await public.token("read")
    for given in (read, f"Basic {read}", "Bearer", "Bearer ", f"Bearer {read}x", "Bearer duly_x"):
        answer = await public.request("/v1/workers", headers={"authorization": given})
        assert answer.status_code == 401, given
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        assert read not in answer.text
    assert await public.status("/v1/workers", headers={"authorization": f"bearer  {read}"}) == 200


async def test_a_revoked_key_is_refused_after_a_second(public: Port, clock: VirtualClock) -> None:
    read = await public.token("read")
    assert await public.status("/v1/workers", key=read) == 200
    (key,) = await public.app.keys.list()
    await public.app.keys.revoke(key.id)
    clock.advance(1)
    assert await public.status("/v1/workers", key=read) == 401


async def test_a_long_connection_is_authenticated_again(public: Port, clock: VirtualClock) -> None:
    made, authenticator = await public.app.keys.create("reader"), Authenticator(public.app)
    scope = {
        "type": "http",
        "client": ("203.0.113.7", 4711),
        "headers": [(b"authorization", f"Bearer {made.token}".encode())],
    }
    assert await authenticator.still_admits(scope)
    await public.app.keys.revoke(made.id)
    clock.advance(1)
    assert not await authenticator.still_admits(scope)


async def test_an_expired_key_is_refused_even_if_it_is_cached(
    public: Port, clock: VirtualClock
) -> None:
    ends_at = clock.now() + timedelta(milliseconds=500)
    made = await public.app.keys.create("short", expires_at=ends_at)
    assert await public.status("/v1/workers", key=made.token) == 200
    clock.advance(0.5)
    assert await public.status("/v1/workers", key=made.token) == 401


async def test_a_new_key_is_accepted_even_if_its_token_was_refused_before(
    public: Port, clock: VirtualClock
) -> None:
    read = await public.token("read")
    ring = KeyCache(public.app.keys.check, clock)
    assert await ring.key(read) is not None
    asked = []

    async def check(token: str) -> None:
        asked.append(token)

    ring = KeyCache(check, clock)
    assert [await ring.key(read) for _ in range(3)] == [None] * 3
    clock.advance(1)
    assert await ring.key(read) is None
    assert len(asked) == 2


async def test_many_requests_at_once_check_a_key_once(public: Port, clock: VirtualClock) -> None:
    read, asked = await public.token("read"), 0

    async def check(token: str) -> object:
        nonlocal asked
        asked += 1
        return await public.app.keys.check(token)

    ring = KeyCache(check, clock)  # type: ignore[arg-type]
    first = asyncio.create_task(ring.key(read))
    others = [asyncio.create_task(ring.key(read)) for _ in range(20)]
    await asyncio.sleep(0)
    first.cancel()
    found = await asyncio.gather(*others)
    assert all(key is not None for key in found)
    assert asked == 1


async def test_a_check_that_failed_in_the_store_is_repeated(
    public: Port, clock: VirtualClock
) -> None:
    read, away = await public.token("read"), True

    async def check(token: str) -> StoredKey | None:
        if away:
            raise StoreUnavailable("the store is away")
        return await public.app.keys.check(token)

    ring = KeyCache(check, clock)
    hung_up = asyncio.create_task(ring.key(read))
    await asyncio.sleep(0)
    hung_up.cancel()
    with pytest.raises(StoreUnavailable):
        await ring.key(read)
    away = False
    assert await ring.key(read) is not None


@pytest.mark.parametrize(
    ("scope", "allowed"), [("read", False), ("operate", True), ("admin", True)]
)
async def test_changes_need_the_scope_operate(public: Port, scope: str, allowed: bool) -> None:
    key = await public.token(scope)
    assert await public.status(key=key) == 404
    answer = await public.request("/v1/deliveries", "POST", key=key, **NEW)
    assert answer.status_code == (201 if allowed else 403)
    if not allowed:
        assert "scope operate" in answer.json()["detail"]
        assert 'scope="operate"' in answer.headers["www-authenticate"]
        assert await public.app.list() == []


async def test_only_verbose_health_needs_a_key(public: Port) -> None:
    await public.token("read")
    evil = {"host": "whoever.example"}
    assert (await public.request("/health", headers=evil)).json() == {"status": "ok"}
    assert await public.status("/health?verbose=true") == 401
    assert await public.status("/health?verbose") == 401


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("localhost", True),
        ("LOCALHOST:8787", True),
        ("localhost.", True),
        ("127.0.0.1:8787", True),
        ("[::1]:8787", True),
        ("10.1.2.3", True),
        ("duly.example", True),
        ("duly.example:443", True),
        ("rebound.example", False),
        ("localhost.rebound.example", False),
        ("127.0.0.1.rebound.example", False),
        ("[::1", False),
        ("", False),
    ],
)
async def test_only_host_names_of_this_server_are_accepted(
    sqlite_url: str, clock: VirtualClock, host: str, allowed: bool
) -> None:
    async with port(sqlite_url, clock, allowed_hosts="duly.example, other.example") as here:
        answer = await here.request("/v1/workers", peer="127.0.0.1", headers={"host": host})
    assert answer.status_code == (200 if allowed else 421)
    if not allowed:
        assert "allowed_hosts" in answer.json()["detail"]


async def test_any_host_name_is_accepted_if_the_setting_allows_it(
    sqlite_url: str, clock: VirtualClock
) -> None:
    async with port(sqlite_url, clock, allowed_hosts="*") as here:
        asked = here.request("/v1/workers", peer="127.0.0.1", headers={"host": "whatever.example"})
        assert (await asked).status_code == 200


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, True),
        ({"origin": "http://127.0.0.1"}, True),
        ({"origin": "https://duly.example"}, True),
        ({"origin": "http://duly.example", "host": "duly.example"}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"origin": "http://127.0.0.1:3000"}, False),
        ({"origin": "http://localhost"}, False),
        ({"origin": "https://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": ""}, False),
        ({"origin": "http://[::1"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
    ],
)
async def test_pages_of_other_sites_cannot_change_anything(
    sqlite_url: str, clock: VirtualClock, headers: dict[str, str], allowed: bool
) -> None:
    async with port(sqlite_url, clock, allowed_hosts="duly.example") as here:
        from_page = {"peer": "127.0.0.1", "headers": headers}
        status = await here.status("/v1/deliveries", "POST", **from_page, **NEW)
        assert status == (201 if allowed else 403)
        # The browser does not give the answer of a GET to the page.
        assert await here.status("/v1/workers", **from_page) == 200
        assert len(await here.app.list()) == int(allowed)


async def test_a_rate_limit_of_a_key_does_not_affect_other_keys(
    sqlite_url: str, clock: VirtualClock
) -> None:
    async with port(sqlite_url, clock, key_rate=2.0, **EVERYWHERE) as public:
        greedy, steady = await public.token("read"), await public.token("read")
        assert [await public.status("/v1/workers", key=greedy) for _ in range(3)] == [200, 200, 429]
        answer = await public.request("/v1/workers", key=greedy)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert "2 requests a second" in answer.json()["detail"]
        once = {"key": await public.token("operate"), "headers": {"idempotency-key": "x"}}
        assert await public.status("/v1/deliveries", "POST", **once, **NEW) == 201
        assert await public.status("/v1/workers", **once) == 200
        for _ in range(6):
            assert await public.status("/v1/workers", key=steady) == 200
            await public.status("/v1/workers", key=greedy)
            clock.advance(0.5)
        assert await public.status("/v1/workers", key=greedy) == 200


@pytest.mark.parametrize("path", ["/metrics", "/health?verbose=true"])
async def test_server_wide_paths_are_refused_for_other_namespaces(public: Port, path: str) -> None:
    assert await public.status(path, key=await public.token("read")) == 200
    assert await public.status(path, key=await public.token("admin", "billing")) == 403


async def test_stats_are_those_of_the_callers_namespace(public: Port) -> None:
    ours, theirs = await public.token("operate"), await public.token("operate", "billing")
    assert await public.status("/v1/deliveries", "POST", key=ours, **NEW) == 201
    told = [
        (await public.request("/v1/stats", key=key)).json()["last_hour"]["accepted"]
        for key in (theirs, ours, theirs)
    ]
    assert told == [0, 1, 0]
