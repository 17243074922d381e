"""Other sites' pages: none is let in unless the setting says so, and none without a key by `*`."""

from contextlib import AbstractAsyncContextManager

import pytest

from duly.errors import BadSetting
from duly.settings import load
from duly.testing import VirtualClock
from tests.http.doors import Port, port

pytestmark = pytest.mark.requirement("S2")
APP, OTHER, LOCAL = "https://app.example", "https://other.example", "127.0.0.1"
PATH = "/v1/deliveries"
ALLOW = "access-control-allow-origin"
NEW = {"target": "work"}


def opened(url: str, origins: str) -> AbstractAsyncContextManager[Port]:
    return port(url, VirtualClock(), cors_origins=origins)


def preflight(origin: str, method: str = "POST") -> dict[str, str]:
    return {
        "origin": origin,
        "access-control-request-method": method,
        "access-control-request-headers": "authorization,content-type",
    }


async def test_by_default_no_page_is_let_in(sqlite_url: str) -> None:
    async with opened(sqlite_url, "") as there:
        asked = await there.ask(PATH, "OPTIONS", peer=LOCAL, headers=preflight(APP))
        read = await there.ask(PATH, peer=LOCAL, headers={"origin": APP})
        wrote = await there.ask(PATH, "POST", peer=LOCAL, headers={"origin": APP}, json=NEW)
    for answer in (asked, read, wrote):
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert wrote.status_code == 403


@pytest.mark.parametrize("origins", [APP, "https://third.example, https://APP.example"])
async def test_a_page_that_is_named_may_ask_and_change(sqlite_url: str, origins: str) -> None:
    async with opened(sqlite_url, origins) as there:
        asked = await there.ask(PATH, "OPTIONS", headers=preflight(APP))
        assert (asked.status_code, asked.content, asked.headers[ALLOW]) == (204, b"", APP)
        assert "POST" in asked.headers["access-control-allow-methods"]
        assert "authorization" in asked.headers["access-control-allow-headers"]
        assert "origin" in asked.headers["vary"].lower()
        # One that is taken in, one that is listed, one that is refused, and one without a route.
        wrote = await there.ask(PATH, "POST", peer=LOCAL, headers={"origin": APP}, json=NEW)
        read = await there.ask(PATH, peer=LOCAL, headers={"origin": APP})
        wrong = await there.ask(PATH, "POST", peer=LOCAL, headers={"origin": APP}, json={})
        astray = await there.ask("/nowhere", peer=LOCAL, headers={"origin": APP})
    answers = [wrote, read, wrong, astray]
    assert [each.status_code for each in answers] == [201, 200, 422, 404]
    for each in answers:
        assert each.headers[ALLOW] == APP
        assert "location" in each.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in each.headers


async def test_a_page_that_is_not_named_is_not_let_in(sqlite_url: str) -> None:
    async with opened(sqlite_url, APP) as there:
        for origin in (OTHER, "null", f"{APP}.evil.example", f"{APP}:8443", "http://app.example"):
            headers = {"origin": origin}
            asked = await there.ask(PATH, "OPTIONS", peer=LOCAL, headers=preflight(origin))
            wrote = await there.ask(PATH, "POST", peer=LOCAL, headers=headers, json=NEW)
            read = await there.ask(PATH, peer=LOCAL, headers=headers)
            assert wrote.status_code == 403, origin
            for each in (asked, wrote, read):
                assert ALLOW not in each.headers, origin
                assert "origin" in each.headers["vary"].lower(), origin


async def test_with_a_star_every_page_is_let_in_that_has_a_key(sqlite_url: str) -> None:
    async with opened(sqlite_url, "*") as there:
        key, headers = await there.token("operate"), {"origin": OTHER}
        asked = await there.ask(PATH, "OPTIONS", headers=preflight(OTHER))
        assert (asked.status_code, asked.headers[ALLOW]) == (204, "*")
        wrote = await there.ask(PATH, "POST", key=key, peer=LOCAL, headers=headers, json=NEW)
        assert (wrote.status_code, wrote.headers[ALLOW]) == (201, "*")
        assert "access-control-allow-credentials" not in wrote.headers
        # On this machine nobody else needs one; a page would act for whoever looks at it.
        for method, body in (("GET", {}), ("POST", {"json": NEW})):
            bare = await there.ask(PATH, method, peer=LOCAL, headers=headers, **body)
            assert bare.status_code == 401, method
        own = {"origin": "http://127.0.0.1"}
        assert await there.status(PATH, "POST", peer=LOCAL, headers=own, json=NEW) == 201
        assert await there.status(PATH, peer=LOCAL) == 200


@pytest.mark.parametrize("origins", ["*", APP])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_page_that_hides_its_origin_is_nobody_on_this_machine(
    sqlite_url: str, origins: str, site: str
) -> None:
    """By fetch(url, {mode: "no-cors"}), or by an image: a browser sends no Origin then."""
    headers = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
    async with opened(sqlite_url, origins) as there:
        key = await there.token("read")
        for method in ("GET", "HEAD"):
            assert await there.status(PATH, method, peer=LOCAL, headers=headers) == 401
            assert await there.status(PATH, method, key=key, peer=LOCAL, headers=headers) == 200
        for own in ("same-origin", "none"):
            assert await there.status(PATH, peer=LOCAL, headers={"sec-fetch-site": own}) == 200


@pytest.mark.parametrize("origins", ["*", APP])
async def test_no_cache_hands_a_page_what_was_told_without_a_key(
    sqlite_url: str, origins: str
) -> None:
    """A page may ask for what the browser has kept, and an old one does not say who asks."""
    async with opened(sqlite_url, origins) as there:
        key = await there.token("read")
        told = [await there.ask(PATH, method, peer=LOCAL) for method in ("GET", "HEAD")]
        told.append(await there.ask(PATH, "POST", peer=LOCAL, json=NEW))
        shown = await there.ask(PATH, key=key, headers={"origin": APP})
        health = await there.ask("/health", peer=LOCAL)
    assert [each.status_code for each in told] == [200, 200, 201]
    for each in told:
        assert ALLOW not in each.headers
        assert each.headers.get_list("cache-control") == ["no-store"]
    assert shown.headers[ALLOW] == origins
    assert "cache-control" not in shown.headers
    assert health.headers.get_list("cache-control") == ["no-store"]
    for each in (*told, shown, health):
        assert "origin" in each.headers["vary"].lower()


async def test_a_page_that_is_let_in_still_needs_a_key_from_elsewhere(sqlite_url: str) -> None:
    async with opened(sqlite_url, APP) as there:
        assert await there.status(PATH, headers={"origin": APP}) == 401


@pytest.mark.parametrize(
    "wrong", ["app.example", "https://app.example/", "ftp://a", "* https://a", "https://a *"]
)
def test_what_is_no_origin_is_a_bad_setting(wrong: str) -> None:
    with pytest.raises(BadSetting, match="cors_origins"):
        load({"cors_origins": wrong}, {})
