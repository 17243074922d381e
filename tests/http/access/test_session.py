"""Sessions of browsers: a key is traded for a cookie with its rights, which ends with the key."""

from collections.abc import AsyncIterator

import pytest
from httpx import Response

from duly.testing import VirtualClock
from tests.http.ports import Port, port

pytestmark = pytest.mark.requirement("S2", "S5")
PEER = "203.0.113.7"


@pytest.fixture
async def public(database_url: str, clock: VirtualClock) -> AsyncIterator[Port]:
    """A server that other machines can reach, on each store."""
    async with port(database_url, clock, host="0.0.0.0") as found:
        yield found


async def log_in(public: Port, key: str, **headers: str) -> Response:
    return await public.request(
        "/v1/session", "POST", peer=PEER, json={"key": key}, headers=headers
    )


def cookie_of(answer: Response) -> dict[str, str]:
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


async def status(public: Port, path: str, method: str = "GET", **headers: str) -> int:
    return (await public.request(path, method, peer=PEER, headers=headers)).status_code


async def test_a_key_is_traded_for_a_cookie_that_scripts_cannot_read(public: Port) -> None:
    answer = await log_in(public, await public.token("operate"))
    assert answer.status_code == 201
    assert (answer.json()["scope"], answer.json()["session"]) == ("operate", True)
    for part in ("HttpOnly", "SameSite=Strict", "Path=/;", "Expires="):
        assert part in answer.headers["set-cookie"]
    session = cookie_of(answer)
    assert await status(public, "/v1/workers") == 401
    assert await status(public, "/v1/workers", **session) == 200
    (latest, *_) = await public.app.audit.list(limit=1)
    assert (latest.action, latest.actor) == ("session.started", answer.json()["actor"])
    caller = await public.request("/v1/session", peer=PEER, headers=session)
    assert caller.json()["actor"] == answer.json()["actor"]


async def test_a_session_has_the_scope_of_its_key(public: Port) -> None:
    session = cookie_of(await log_in(public, await public.token("read")))
    body = {"json": {"target": "work"}, "headers": session}
    refused = await public.request("/v1/deliveries", "POST", peer=PEER, **body)
    assert refused.status_code == 403
    assert await status(public, "/v1/keys", **session) == 403


async def test_a_wrong_key_gets_no_session(public: Port) -> None:
    one, other = await public.token("read"), await public.token("read")
    mixed = one[:22] + other[22:]
    for key in ("", "duly_wrong", mixed):
        answer = await log_in(public, key)
        assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)


async def test_a_session_ends_with_its_key(public: Port, clock: VirtualClock) -> None:
    key = await public.token("admin")
    session = cookie_of(await log_in(public, key))
    await public.app.keys.revoke(key.split("_")[1])
    clock.advance(2)
    assert await status(public, "/v1/workers", **session) == 401


async def test_a_session_ends_after_twelve_hours(public: Port, clock: VirtualClock) -> None:
    session = cookie_of(await log_in(public, await public.token("read")))
    clock.advance(12 * 3600 - 2)
    assert await status(public, "/v1/workers", **session) == 200
    clock.advance(3)
    assert await status(public, "/v1/workers", **session) == 401


async def test_log_out_ends_the_session_and_removes_the_cookie(
    public: Port, clock: VirtualClock
) -> None:
    session = cookie_of(await log_in(public, await public.token("read")))
    answer = await public.request("/v1/session", "DELETE", peer=PEER, headers=session)
    assert (answer.status_code, "1970" in answer.headers["set-cookie"]) == (204, True)
    clock.advance(2)
    assert await status(public, "/v1/workers", **session) == 401


@pytest.mark.parametrize(
    "foreign", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}]
)
async def test_a_page_of_another_site_can_neither_use_a_session_nor_start_one(
    public: Port, foreign: dict[str, str]
) -> None:
    key = await public.token("operate")
    assert (await log_in(public, key, **foreign)).status_code == 403
    session = cookie_of(await log_in(public, key))
    body = {"json": {"target": "work"}, "headers": session | foreign}
    refused = await public.request("/v1/deliveries", "POST", peer=PEER, **body)
    assert refused.status_code == 403
    assert await status(public, "/v1/session", "DELETE", **session, **foreign) == 403


async def test_on_loopback_the_caller_is_known_without_a_session(
    sqlite_url: str, clock: VirtualClock
) -> None:
    async with port(sqlite_url, clock) as here:
        found = (await here.request("/v1/session", peer="127.0.0.1")).json()
    assert (found["actor"], found["scope"], found["session"]) == ("loopback", "admin", False)
