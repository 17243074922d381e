"""A webhook to the server itself needs a key, even from this machine."""

import pytest

import duly
from duly.domain.endpoints.webhooks import encode_webhook
from duly.errors import InvalidInput
from duly.records.target import Webhook
from duly.testing import VirtualClock, run_until_idle
from tests.http.ports import Port, port
from tests.transports.receiver import Taken, receiver
from tests.transports.sending import sender

pytestmark = pytest.mark.requirement("X3", "S2")
PROXIES = (
    *("X-Forwarded", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Whatever"),
    *("CF-Connecting-IP", "True-Client-IP", "X-Client-IP", "Fastly-Client-IP", "CDN-Loop"),
)


async def test_every_kind_of_webhook_to_the_server_needs_a_key(
    sqlite_url: str, clock: VirtualClock
) -> None:
    async with port(sqlite_url, clock, egress_allow="127.0.0.1") as here:
        async with receiver() as there:
            await send_each_kind(here, there.url())
        assert len(there.taken) == 4
        for each in there.taken:
            assert (await replay(here, each)) == 401
            assert (await replay(here, each, await here.token("admin"))) == 201


async def send_each_kind(here: Port, url: str) -> None:
    """Send one to a URL, one to an endpoint, one of a schedule, and a test."""
    app, hook = here.app, duly.webhook(url, headers={"User-Agent": "curl/8", "Origin": url})
    await app.deliver(hook)
    await app.endpoints.add("billing", url, headers={"user-agent": "curl/8"})
    await app.deliver(duly.endpoint("billing"))
    await app.schedule("tick", duly.every("1d"), hook)
    await app.schedules.trigger("tick")
    await run_until_idle(app)
    await app.endpoints.test("billing")


async def replay(here: Port, taken: Taken, key: str | None = None) -> int:
    """Send a received webhook to the site from this machine; returns the status."""
    sent = {name: each for name, each in taken.headers.items() if name != "origin"}
    sent |= {"host": "127.0.0.1", "content-length": "19"}
    asked = here.request(
        "/v1/keys", "POST", peer="127.0.0.1", headers=sent, content=b'{"name":"evil-key"}', key=key
    )
    return (await asked).status_code


async def test_no_header_of_an_endpoint_removes_the_mark(clock: VirtualClock) -> None:
    for name in ("webhook-id", "Webhook-ID"):
        with pytest.raises(InvalidInput, match="set by duly"):
            duly.webhook("https://example.org/", headers={name: ""})
        # Stored directly, past the checks.
        async with receiver() as there, sender(clock) as here:
            await here.send_stored(encode_webhook(Webhook(there.url(), headers={name: ""})))
        assert "webhook-id" in there.taken[0].headers


async def test_a_request_with_any_header_of_a_proxy_needs_a_key(
    sqlite_url: str, clock: VirtualClock
) -> None:
    async with port(sqlite_url, clock) as here:
        answers = {
            header: await here.status("/v1/workers", peer="127.0.0.1", headers={header: "1"})
            for header in (*PROXIES, "X-Mine")
        }
    assert answers == dict.fromkeys(PROXIES, 401) | {"X-Mine": 200}
