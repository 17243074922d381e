"""The headers of webhooks to plain URLs are sealed at rest, like those of endpoints."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import duly
from duly import App
from duly.domain.endpoints.webhooks import decode_webhook
from duly.errors import Conflict
from duly.records.target import shown_headers
from duly.testing import VirtualClock, run_until_idle
from tests.services.transfers import export_lines, import_lines
from tests.stores.store_probe import StoreProbe
from tests.transports.receiver import receiver

pytestmark = pytest.mark.requirement("X4")

FIRST, SECOND = (base64.b64encode(bytes([each]) * 32).decode() for each in (7, 8))
HEADERS = {"Authorization": "Bearer hunter2", "X-Team": "team-seventeen"}
DAILY = duly.every("1d")


def with_keys(database_url: str, *keys: str, **settings: Any) -> App:
    given = {"secret_key": " ".join(keys), "egress_allow": "127.0.0.1/32"} | settings
    return App(database_url, environment={}, **given)


async def rows(app: App) -> str:
    """All columns of deliveries and schedules."""
    probe = StoreProbe(app.store, app.clock)  # type: ignore[arg-type]
    tables = ("deliveries", "schedules")
    return str([await probe.sql(f"select * from duly.{each}") for each in tables])


async def stored(app: App) -> str:
    """The rows and, on SQLite, the bytes of the files."""
    found = await rows(app)
    if app.settings.database.startswith("sqlite:"):
        file = Path(app.settings.database.removeprefix("sqlite:///"))
        for each in file.parent.glob(f"{file.name}*"):
            found += each.read_bytes().decode("latin-1")
    return found


async def shown(app: App) -> dict[str, str]:
    """The headers of the schedule as they are shown."""
    contents = (await app.store.schedules.get("daily")).contents
    return shown_headers(decode_webhook(contents.address or "").headers)


def plain_values(text: str) -> list[str]:
    return [value for value in HEADERS.values() if value in text]


async def test_headers_are_sealed_at_rest_and_sent_as_they_were_given(database_url: str) -> None:
    async with with_keys(database_url, FIRST) as app, receiver() as there:
        target = duly.webhook(there.url("/in"), headers=HEADERS)
        await app.deliver(target, stream="one")
        await app.deliver_many([(target, 1), {"target": target, "key": "mapped"}])
        async with app.transaction() as transaction:
            await app.deliver(target, connection=transaction)
        await app.schedule("daily", DAILY, target)
        await app.schedules.trigger("daily")
        found = await stored(app)
        assert found.count(there.url("/in")) >= 6
        assert plain_values(found) == []
        await run_until_idle(app)
        sent = [(each.headers["authorization"], each.headers["x-team"]) for each in there.taken]
        assert sent == [tuple(HEADERS.values())] * 5
        assert plain_values(await stored(app)) == []


async def test_without_a_key_headers_are_stored_in_plain(database_url: str) -> None:
    async with with_keys(database_url) as app:
        await app.deliver(duly.webhook("https://example.org/in", headers=HEADERS))
        assert plain_values(await stored(app)) == list(HEADERS.values())


async def test_a_repeated_delivery_is_known_with_any_key_and_another_credential_is_not(
    database_url: str,
) -> None:
    target = duly.webhook("https://example.org/in", headers=HEADERS)
    other = duly.webhook("https://example.org/in", headers=HEADERS | {"X-Team": "other"})
    async with with_keys(database_url, FIRST) as app:
        id = (await app.deliver(target, key="k")).id
        await app.schedule("daily", DAILY, target)
    for keys in ([FIRST], [SECOND, FIRST]):
        async with with_keys(database_url, *keys) as app:
            assert (await app.deliver(target, key="k")).id == id
            with pytest.raises(Conflict, match="another target or payload"):
                await app.deliver(other, key="k")
            assert (await app.schedule("daily", DAILY, target)).change == "unchanged"
            assert await shown(app) == HEADERS | {"Authorization": "***"}
    async with with_keys(database_url, FIRST) as app:
        assert (await app.schedule("daily", DAILY, other)).change == "changed"


async def test_a_delivery_on_the_callers_connection_is_sealed_and_known(
    postgres_url: str,
) -> None:
    target = duly.webhook("https://example.org/in", headers=HEADERS)
    async with with_keys(postgres_url, FIRST) as app:
        connection = await asyncpg.connect(postgres_url)
        first, second = [
            (await app.deliver(target, key="k", connection=connection)).id for _ in range(2)
        ]
        await connection.close()
        assert first == second
        assert plain_values(await stored(app)) == []


async def test_headers_with_a_lost_key_are_hidden_kept_and_never_sent(database_url: str) -> None:
    clock = VirtualClock()
    async with receiver() as there:
        target = duly.webhook(there.url("/in"), headers=HEADERS)
        async with with_keys(database_url, FIRST, clock=clock) as app:
            id = (await app.deliver(target)).id
            await app.schedule("daily", DAILY, target)
        async with with_keys(database_url, SECOND, clock=clock) as app:
            await run_until_idle(app)
            found = await app.get(id)
            assert (found.state, found.attempt) == ("pending", 0)
            assert await shown(app) == dict.fromkeys(HEADERS, "***")
            with pytest.raises(Conflict, match="cannot be opened with the keys in DULY_SECRET_KEY"):
                await export_lines(app, with_secrets=True)
            assert b'"missing":["Authorization","X-Team"]' in b"".join(await export_lines(app))
        assert there.taken == []
        async with with_keys(database_url, SECOND, FIRST, clock=clock) as app:
            await run_until_idle(app, within=60)
            assert (await app.get(id)).state == "completed"
        assert there.taken[0].headers["authorization"] == HEADERS["Authorization"]


async def test_a_sealed_header_cannot_be_opened_for_another_url(database_url: str) -> None:
    async with receiver() as there:
        async with with_keys(database_url, FIRST) as app:
            url = there.url("/other")
            id = (await app.deliver(duly.webhook(url, headers=HEADERS))).id
            moved = f"replace(address, '{url}', '{there.url('/in')}')"
            probe = StoreProbe(app.store, app.clock)  # type: ignore[arg-type]
            await probe.sql(f"update duly.deliveries set address = {moved}")
            await run_until_idle(app)
            found = await app.get(id)
            assert (found.state, found.attempt) == ("pending", 0)
        assert there.taken == []


async def test_an_export_with_secrets_has_plain_headers_and_an_import_seals_them(
    database_url: str,
) -> None:
    target = duly.webhook("https://example.org/in", headers=HEADERS)
    async with with_keys(database_url, FIRST) as app:
        id = (await app.deliver(target, key="k", after=60)).id
        await app.schedule("daily", DAILY, target)
        lines = await export_lines(app, with_secrets=True)
        assert plain_values(b"".join(lines).decode()) == list(HEADERS.values())
        # Their ids differ, so they are found by key, name and occurrence.
        lines = [each.replace(id[:4].encode(), b"0001") for each in lines]
        assert {new for new, _ in (await import_lines(app, lines)).values()} == {0}
    async with with_keys(database_url, SECOND, namespace="there") as there:
        assert {new for new, _ in (await import_lines(there, lines)).values()} == {1, 2}
        assert plain_values(await stored(there)) == []
        assert "team-seventeen" in str((await there.store.schedules.get("daily")).contents.address)


async def test_a_reseal_replaces_the_old_key_and_seals_plain_headers(database_url: str) -> None:
    clock = VirtualClock()
    async with receiver() as there:
        plain, sealed = (duly.webhook(there.url(each), headers=HEADERS) for each in ("/a", "/b"))
        async with with_keys(database_url, clock=clock) as app:
            await app.deliver(plain, after=60)
        async with with_keys(database_url, FIRST, clock=clock) as app:
            await app.deliver(sealed, after=60)
            await app.schedule("daily", DAILY, sealed)
            batch = await app.batches.open(sealed)
        async with with_keys(database_url, SECOND, clock=clock) as app:
            done = await app.endpoints.reseal_addresses()
            assert (done.schedules, done.deliveries) == (0, 1), "the plain one"
            assert "which is not in DULY_SECRET_KEY" in done.failed[sealed.origin]
        async with with_keys(database_url, SECOND, FIRST, clock=clock) as app:
            for counts in ((1, 3), (0, 0)):
                done = await app.endpoints.reseal_addresses()
                assert (done.schedules, done.deliveries, done.failed) == (*counts, {})
            actions = [each.action for each in await app.audit.list()]
            assert actions.count("store.resealed") == 4
        async with with_keys(database_url, SECOND, clock=clock) as app:
            assert plain_values(await rows(app)) == []
            await app.schedules.trigger("daily")
            await app.batches.close(batch.id)
            await run_until_idle(app, within=90)
        assert [each.headers["authorization"] for each in there.taken] == ["Bearer hunter2"] * 4
