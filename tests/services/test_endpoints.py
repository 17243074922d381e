"""Endpoints from Python: a refused operation changes nothing."""

import base64
from collections.abc import Collection
from datetime import timedelta

import pytest

import duly
from duly import App
from duly.domain.endpoints.endpoint import Sealed
from duly.testing import VirtualClock
from duly.vault import CannotOpen, Vault

URL = "https://example.org/hook"
LOST, KEPT = (base64.b64encode(bytes([each]) * 32).decode() for each in (1, 2))


def keyed(url: str, clock: VirtualClock, key: str) -> App:
    return App(url, clock=clock, environment={}, secret_key=key)


async def test_a_refused_removal_cancels_nothing(app: App) -> None:
    await app.endpoints.add("billing", URL)
    await app.schedule("hourly", duly.every("1h"), duly.endpoint("billing"))
    waiting = await app.deliver(duly.endpoint("billing"), after=60)
    with pytest.raises(duly.Conflict, match="schedule 'hourly' sends to"):
        await app.endpoints.remove("billing", cancel_waiting=True)
    assert (await app.get(waiting.id)).state == "pending"
    assert (await app.endpoints.get("billing")).state == "active"


async def test_a_list_counts_waiting_deliveries_of_all_endpoints_in_one_read(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        await app.endpoints.add(name, URL)
    for name in ("a", "c", "c"):
        await app.deliver(duly.endpoint(name), after=60)
    reads, count = [], app.store.endpoints.waiting

    async def record(targets: Collection[int]) -> dict[int, tuple[int, int]]:
        reads.append(targets)
        return await count(targets)

    monkeypatch.setattr(app.store.endpoints, "waiting", record)
    found = await app.endpoints.list()
    assert [(each.name, each.waiting, each.under_way) for each in found] == [
        *(("a", 1, 0), ("b", 0, 0), ("c", 2, 0)),
    ]
    assert len(reads) == 1


@pytest.mark.requirement("C6")
async def test_only_get_shows_the_values_of_a_query(app: App) -> None:
    added = await app.endpoints.add("billing", f"{URL}?token=hunter2")
    (listed,) = await app.endpoints.list()
    edited = await app.endpoints.edit("billing", rate=5)
    for each in (added, listed, edited):
        assert each.url == f"{URL}?token=…"
    found = await app.endpoints.get("billing")
    assert found.url == f"{URL}?token=hunter2"
    assert "hunter2" not in repr(found)
    assert added.secret not in repr(added)


@pytest.mark.requirement("C6")
async def test_an_expired_secret_may_outlive_its_key(
    database_url: str, clock: VirtualClock
) -> None:
    async with keyed(database_url, clock, LOST) as before:
        await before.endpoints.add("billing", URL)
    async with keyed(database_url, clock, f"{KEPT} {LOST}") as between:
        await between.endpoints.rotate("billing", overlap=timedelta(hours=1))
    async with keyed(database_url, clock, KEPT) as after:
        found = await after.endpoints.get("billing")
        assert "not in DULY_SECRET_KEY" in str(found.secrets_problem)
        with pytest.raises(CannotOpen):
            await after.endpoints.reseal("billing")
        clock.advance(3600)
        assert (await after.endpoints.get("billing")).secrets_problem is None
        assert await after.endpoints.reseal("billing")
        assert len((await after.endpoints.get("billing")).secrets) == 1


@pytest.mark.requirement("C6")
def test_a_damaged_secret_cannot_be_opened() -> None:
    vault = Vault([b"k" * 32], lambda count: b"n" * count)
    for text in ("x", "é", "AAAA", ""):
        with pytest.raises(CannotOpen):
            vault.open(Sealed(text, vault.seals), "billing")


@pytest.mark.requirement("C7")
async def test_an_edit_checks_the_url_only_if_it_is_given(
    sqlite_url: str, clock: VirtualClock
) -> None:
    private = "http://10.0.0.1/"
    async with App(sqlite_url, clock=clock, environment={}, egress_allow="10.0.0.1") as inside:
        await inside.endpoints.add("billing", private)
    async with App(sqlite_url, clock=clock, environment={}) as outside:
        assert (await outside.endpoints.edit("billing", rate=5)).rate == 5
        with pytest.raises(duly.InvalidInput, match=r"url: 10.0.0.1 is not for the public"):
            await outside.endpoints.edit("billing", url=private)
