"""The headers of endpoints, which contain credentials, are sealed at rest if there is a key."""

from __future__ import annotations

import base64
from typing import Any

import pytest

import duly
from duly import App
from duly.domain.endpoints.sealed_headers import opened_headers
from duly.errors import Conflict
from duly.testing import run_until_idle
from tests.services.transfers import export_lines, import_lines
from tests.stores.store_probe import StoreProbe
from tests.transports.receiver import receiver

pytestmark = pytest.mark.requirement("X4")

FIRST, SECOND = (base64.b64encode(bytes([each]) * 32).decode() for each in (7, 8))
HEADERS = {"Authorization": "Bearer hunter2", "X-Team": "team-seventeen"}
HIDDEN = HEADERS | {"Authorization": "***"}


def with_keys(database_url: str, *keys: str, **settings: Any) -> App:
    given = {"secret_key": " ".join(keys), "egress_allow": "127.0.0.1/32"} | settings
    return App(database_url, environment={}, **given)


async def stored(app: App) -> str:
    rows = await StoreProbe(app.store, app.clock).sql(  # type: ignore[arg-type]
        "select headers from duly.endpoints"
    )
    return str(rows)


async def opened(app: App) -> dict[str, str]:
    """The headers as they are sent."""
    found = await app.store.endpoints.get("billing")
    return opened_headers(found.details.headers, found.name, app.vault.open)


def plain_values(text: str) -> list[str]:
    return [value for value in HEADERS.values() if value in text]


async def test_header_values_are_sealed_at_rest_and_sent_as_they_were_given(
    database_url: str,
) -> None:
    async with with_keys(database_url, FIRST) as app, receiver() as there:
        added = await app.endpoints.add("billing", there.url("/in"), headers=HEADERS)
        assert plain_values(await stored(app)) == []
        assert added.headers == HIDDEN
        (listed,) = await app.endpoints.list()
        assert listed.headers == HIDDEN
        changes = {"x-team": None, "X-Room": "room-twelve"}
        edited = await app.endpoints.edit("billing", header_changes=changes, rate=7)
        assert edited.headers == {"Authorization": "***", "X-Room": "room-twelve"}
        assert "room-twelve" not in await stored(app)
        assert plain_values(await stored(app)) == []
        await app.deliver(duly.endpoint("billing"))
        await run_until_idle(app)
        await app.endpoints.test("billing")
        for taken in there.taken:
            assert taken.headers["authorization"] == "Bearer hunter2"
            assert taken.headers["x-room"] == "room-twelve"
            assert "x-team" not in taken.headers
        assert len(there.taken) == 2


async def test_plain_headers_are_sealed_by_a_reseal_and_again_under_a_new_key(
    database_url: str,
) -> None:
    async with with_keys(database_url) as app:
        await app.endpoints.add("billing", "https://example.org/in", headers=HEADERS)
        assert plain_values(await stored(app)) == list(HEADERS.values())
    async with with_keys(database_url, FIRST) as app:
        assert await opened(app) == HEADERS
        await app.endpoints.rotate("billing")
        assert await app.endpoints.reseal("billing")
        assert plain_values(await stored(app)) == []
        assert not await app.endpoints.reseal("billing")
    async with with_keys(database_url, SECOND, FIRST) as app:
        assert await app.endpoints.reseal("billing")
    async with with_keys(database_url, SECOND) as app:
        assert await opened(app) == HEADERS


async def test_headers_with_a_lost_key_are_hidden_kept_and_never_sent(database_url: str) -> None:
    async with with_keys(database_url, FIRST) as app:
        await app.endpoints.add("billing", "https://example.org/in", headers=HEADERS)
    async with with_keys(database_url, SECOND) as app:
        endpoint = await app.endpoints.get("billing")
        assert "which is not in DULY_SECRET_KEY" in (endpoint.secrets_problem or "")
        assert endpoint.headers == dict.fromkeys(HEADERS, "***")
        with pytest.raises(Conflict, match="cannot be read"):
            await app.endpoints.test("billing")
        with pytest.raises(Conflict, match="which is not in DULY_SECRET_KEY"):
            await export_lines(app, with_secrets=True)
        assert b'"missing":["secret","Authorization","X-Team"]' in b"".join(await export_lines(app))
        await app.endpoints.edit("billing", rate=7)
    async with with_keys(database_url, FIRST) as app:
        assert await opened(app) == HEADERS


async def test_an_export_with_secrets_has_plain_headers_and_an_import_seals_them(
    database_url: str,
) -> None:
    async with with_keys(database_url, FIRST) as app:
        await app.endpoints.add("billing", "https://example.org/in", headers=HEADERS)
        lines = await export_lines(app, with_secrets=True)
    assert plain_values(b"".join(lines).decode()) == list(HEADERS.values())
    async with with_keys(database_url, SECOND, namespace="there") as other:
        await import_lines(other, lines)
        assert await opened(other) == HEADERS
        assert plain_values(await stored(other)) == []
