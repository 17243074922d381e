"""`/`, `/docs` and `/openapi.json`: pages without a key and without other hosts."""

import re
from base64 import b64encode
from hashlib import sha256

import pytest

from duly import App
from duly.surfaces.http.monitoring.health import ProcessHealth
from duly.surfaces.http.protocol.routing import OPEN, get
from duly.testing import VirtualClock
from duly.version import __version__
from tests.http.conftest import Client, calling
from tests.http.ports import port

pytestmark = pytest.mark.requirement("S2", "S3")
PAGES = ("/", "/docs")
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


async def test_the_front_page_is_the_dashboard(small_client: Client) -> None:
    for accept in (BROWSER, "*/*", "image/png", "nonsense"):
        answer = await small_client.get("/", headers={"accept": accept})
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
    for link in re.findall(r'(?:href|src)="([^"]+)"', answer.text):
        assert (await small_client.get(f"/{link}")).status_code == 200, link
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert not re.search(r"<(style|script)>", answer.text), "nothing inline"


async def test_a_client_that_accepts_only_json_gets_json(small_client: Client) -> None:
    answer = await small_client.get("/", headers={"accept": "application/json"})
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["vary"] == "Accept"
    found = answer.json()
    assert (found["name"], found["version"]) == ("duly", __version__)
    for link in found["links"].values():
        assert (await small_client.get(link)).status_code in (200, 503), link


async def test_pages_run_their_own_script_and_nothing_else(small_client: Client) -> None:
    for path in ("/docs",):
        answer = await small_client.get(path)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        for tag in ("style", "script"):
            (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", answer.text, re.DOTALL)
            allowed = b64encode(sha256(inside.encode()).digest()).decode()
            assert f"{tag}-src 'sha256-{allowed}'" in policy
        # A hash does not allow inline attributes or scripts of other hosts.
        assert not re.search(r"\s(style|on\w+)=", answer.text)
        assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", answer.text)


async def test_pages_need_no_key_even_where_keys_are_needed(
    sqlite_url: str, clock: VirtualClock
) -> None:
    async with port(sqlite_url, clock, host="0.0.0.0") as public:
        for path in (*PAGES, "/openapi.json"):
            for given in ({}, {"key": "duly_wrong"}):
                assert await public.status(path, **given) == 200, path
        document = await public.request("/openapi.json")
        assert document.json()["security"] == [{"key": []}]
        assert await public.status("/v1/workers") == 401


async def test_the_document_is_the_same_at_its_second_path(
    small_client: Client,
) -> None:
    first, second = [await small_client.get(f"{at}/openapi.json") for at in ("", "/docs")]
    assert first.content == second.content


async def test_an_app_may_have_its_own_front_page(sqlite_url: str) -> None:
    @get("/", scope=OPEN, media="text/plain")
    async def mine() -> bytes:
        return b"mine"

    async with App(sqlite_url, environment={}) as app:
        app.routes.append(mine)
        async with calling(app, ProcessHealth(app, app.engine())) as client:
            assert (await client.get("/")).text == "mine"
            assert (await client.get("/docs")).status_code == 200
