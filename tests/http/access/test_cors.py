"""CORS: other origins are allowed only by the setting, and with `*` only with a key."""

from contextlib import AbstractAsyncContextManager

import pytest

from duly.errors import BadSetting
from duly.settings import load
from duly.testing import VirtualClock
from tests.http.ports import Port, port

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


async def test_by_default_no_origin_is_allowed(sqlite_url: str) -> None:
    async with opened(sqlite_url, "") as there:
        preflighted = await there.request(PATH, "OPTIONS", peer=LOCAL, headers=preflight(APP))
        read = await there.request(PATH, peer=LOCAL, headers={"origin": APP})
        wrote = await there.request(PATH, "POST", peer=LOCAL, headers={"origin": APP}, json=NEW)
    for answer in (preflighted, read, wrote):
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert wrote.status_code == 403


@pytest.mark.parametrize("origins", [APP, "https://third.example, https://APP.example"])
async def test_an_allowed_origin_may_read_and_change(sqlite_url: str, origins: str) -> None:
    async with opened(sqlite_url, origins) as there:
        preflighted = await there.request(PATH, "OPTIONS", headers=preflight(APP))
        assert (preflighted.status_code, preflighted.content, preflighted.headers[ALLOW]) == (
            204,
            b"",
            APP,
        )
        assert "POST" in preflighted.headers["access-control-allow-methods"]
        assert "authorization" in preflighted.headers["access-control-allow-headers"]
        assert "origin" in preflighted.headers["vary"].lower()
        # An accepted, a listed and a refused request, and one without a route.
        wrote = await there.request(PATH, "POST", peer=LOCAL, headers={"origin": APP}, json=NEW)
        read = await there.request(PATH, peer=LOCAL, headers={"origin": APP})
        wrong = await there.request(PATH, "POST", peer=LOCAL, headers={"origin": APP}, json={})
        astray = await there.request("/nowhere", peer=LOCAL, headers={"origin": APP})
    answers = [wrote, read, wrong, astray]
    assert [each.status_code for each in answers] == [201, 200, 422, 404]
    for each in answers:
        assert each.headers[ALLOW] == APP
        assert "location" in each.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in each.headers


async def test_an_origin_that_is_not_allowed_is_refused(sqlite_url: str) -> None:
    async with opened(sqlite_url, APP) as there:
        for origin in (OTHER, "null", f"{APP}.evil.example", f"{APP}:8443", "http://app.example"):
            headers = {"origin": origin}
            preflighted = await there.request(
                PATH, "OPTIONS", peer=LOCAL, headers=preflight(origin)
            )
            wrote = await there.request(PATH, "POST", peer=LOCAL, headers=headers, json=NEW)
            read = await there.request(PATH, peer=LOCAL, headers=headers)
            assert wrote.status_code == 403, origin
            for each in (preflighted, wrote, read):
                assert ALLOW not in each.headers, origin
                assert "origin" in each.headers["vary"].lower(), origin


async def test_with_a_star_every_origin_is_allowed_with_a_key(sqlite_url: str) -> None:
    async with opened(sqlite_url, "*") as there:
        key, headers = await there.token("operate"), {"origin": OTHER}
        preflighted = await there.request(PATH, "OPTIONS", headers=preflight(OTHER))
        assert (preflighted.status_code, preflighted.headers[ALLOW]) == (204, "*")
        wrote = await there.request(PATH, "POST", key=key, peer=LOCAL, headers=headers, json=NEW)
        assert (wrote.status_code, wrote.headers[ALLOW]) == (201, "*")
        assert "access-control-allow-credentials" not in wrote.headers
        # Local callers need no key, but without one a page would act for the user of the browser.
        for method, body in (("GET", {}), ("POST", {"json": NEW})):
            bare = await there.request(PATH, method, peer=LOCAL, headers=headers, **body)
            assert bare.status_code == 401, method
        own = {"origin": "http://127.0.0.1"}
        assert await there.status(PATH, "POST", peer=LOCAL, headers=own, json=NEW) == 201
        assert await there.status(PATH, peer=LOCAL) == 200


@pytest.mark.parametrize("origins", ["*", APP])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_page_that_hides_its_origin_needs_a_key_on_loopback(
    sqlite_url: str, origins: str, site: str
) -> None:
    """With fetch(url, {mode: "no-cors"}) or an image, a browser sends no Origin."""
    headers = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
    async with opened(sqlite_url, origins) as there:
        key = await there.token("read")
        for method in ("GET", "HEAD"):
            assert await there.status(PATH, method, peer=LOCAL, headers=headers) == 401
            assert await there.status(PATH, method, key=key, peer=LOCAL, headers=headers) == 200
        for own in ("same-origin", "none"):
            assert await there.status(PATH, peer=LOCAL, headers={"sec-fetch-site": own}) == 200


@pytest.mark.parametrize("origins", ["*", APP])
async def test_answers_without_a_key_are_not_cached_for_pages(
    sqlite_url: str, origins: str
) -> None:
    """A page may read the cache of the browser, and an old browser does not send the origin."""
    async with opened(sqlite_url, origins) as there:
        key = await there.token("read")
        open_answers = [await there.request(PATH, method, peer=LOCAL) for method in ("GET", "HEAD")]
        open_answers.append(await there.request(PATH, "POST", peer=LOCAL, json=NEW))
        shown = await there.request(PATH, key=key, headers={"origin": APP})
        health = await there.request("/health", peer=LOCAL)
    assert [each.status_code for each in open_answers] == [200, 200, 201]
    for each in open_answers:
        assert ALLOW not in each.headers
        assert each.headers.get_list("cache-control") == ["no-store"]
    assert shown.headers[ALLOW] == origins
    assert "cache-control" not in shown.headers
    assert health.headers.get_list("cache-control") == ["no-store"]
    for each in (*open_answers, shown, health):
        assert "origin" in each.headers["vary"].lower()


async def test_an_allowed_origin_still_needs_a_key_from_another_machine(sqlite_url: str) -> None:
    async with opened(sqlite_url, APP) as there:
        assert await there.status(PATH, headers={"origin": APP}) == 401


@pytest.mark.parametrize(
    "wrong", ["app.example", "https://app.example/", "ftp://a", "* https://a", "https://a *"]
)
def test_an_invalid_origin_is_an_invalid_setting(wrong: str) -> None:
    with pytest.raises(BadSetting, match="cors_origins"):
        load({"cors_origins": wrong}, {})
