"""`app.keys`, and an app for other namespaces and actors, on both stores."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from duly import App
from duly.errors import InvalidInput, NotFound
from duly.testing import VirtualClock
from tests.services.conftest import record_payloads


async def stored(app: App) -> str:
    """Everything that the database has of a key, as text."""
    rows = await app.store.database.fetch_named(  # type: ignore[attr-defined]
        "keys.find", id=(await app.keys.list())[0].id
    )
    return repr([dict(row) for row in rows])


@pytest.mark.requirement("S2")
async def test_a_token_is_shown_once_and_only_its_hash_is_stored(app: App) -> None:
    made = await app.keys.create("ops", scope="operate")
    secret = made.token.rpartition("_")[2]
    assert secret not in await stored(app)
    assert secret not in repr(await app.audit.list())
    checked = await app.keys.check(made.token)
    assert checked is not None
    found = msgspec.structs.asdict(checked.record(app.clock.now()))
    assert found | {"token": made.token} == msgspec.structs.asdict(made)
    assert secret not in repr(made)
    assert made.scope == "operate"
    (listed,) = await app.keys.list()
    assert (listed.id, listed.name, listed.namespace) == (made.id, "ops", "default")


@pytest.mark.requirement("S2")
async def test_a_wrong_secret_is_refused(app: App) -> None:
    made, other = await app.keys.create("ops"), await app.keys.create("others")
    mixed = f"duly_{made.id}_{other.token.rpartition('_')[2]}"
    assert await app.keys.check(mixed) is None
    assert await app.keys.check("duly_nonsense") is None
    assert await app.keys.check("") is None


@pytest.mark.requirement("S2")
async def test_a_key_ends_when_it_expires_or_is_revoked(app: App, clock: VirtualClock) -> None:
    short = await app.keys.create("short", expires_at=clock.now() + timedelta(hours=1))
    long = await app.keys.create("long")
    clock.advance(3599)
    assert await app.keys.check(short.token) is not None
    clock.advance(1)
    assert await app.keys.check(short.token) is None
    assert await app.keys.any_active()
    revoked = await app.keys.revoke(long.id)
    assert revoked.revoked_at == clock.now()
    assert await app.keys.check(long.token) is None
    assert not await app.keys.any_active()


async def test_revoking_twice_changes_nothing(app: App, clock: VirtualClock) -> None:
    made = await app.keys.create("ops")
    first = await app.keys.revoke(made.id)
    clock.advance(5)
    assert await app.keys.revoke(made.id) == first
    with pytest.raises(NotFound):
        await app.keys.revoke("a" * 16)


@pytest.mark.requirement("S2")
async def test_the_last_use_is_written_at_most_once_a_minute(app: App, clock: VirtualClock) -> None:
    made = await app.keys.create("ops")
    assert made.last_used_at is None
    seen = []
    for _ in range(4):
        await app.keys.check(made.token)
        seen.append((await app.keys.get(made.id)).last_used_at)
        clock.advance(30)
    start = clock.now() - timedelta(seconds=120)
    minute = start + timedelta(seconds=60)
    assert seen == [start, start, minute, minute]


@pytest.mark.requirement("S2")
async def test_keys_are_in_the_audit_trail(app: App) -> None:
    made = await app.acting_as("key:zed").keys.create("ops", scope="admin")
    await app.keys.revoke(made.id)
    revoked, created = await app.audit.list()
    assert (revoked.actor, revoked.action, revoked.subject) == (
        "python",
        "key.revoked",
        made.id,
    )
    assert (created.actor, created.action, created.detail) == (
        "key:zed",
        "key.created",
        {"name": "ops", "scope": "admin", "expires_at": None},
    )


async def test_keys_are_listed_by_id_in_pages(app: App) -> None:
    ids = sorted([(await app.keys.create(f"key {n}")).id for n in range(5)])
    first = await app.keys.list(limit=3)
    rest = await app.keys.list(after=first[-1].id, limit=3)
    assert [each.id for each in (*first, *rest)] == ids


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("", {}),
        ("a\0b", {}),
        ("ops", {"scope": "root"}),
        ("ops", {"expires_at": datetime(2026, 8, 1, tzinfo=UTC)}),
        ("ops", {"expires_at": datetime(2027, 8, 1)}),  # noqa: DTZ001
    ],
)
async def test_an_invalid_key_is_refused(
    small_app: App, name: str, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        await small_app.keys.create(name, **options)
    assert await small_app.keys.list() == []


@pytest.mark.requirement("S2")
async def test_a_key_is_listed_only_in_its_namespace_but_checked_from_every_one(app: App) -> None:
    billing = app.within("billing")
    made = await billing.keys.create("ops")
    assert made.namespace == "billing"
    assert await app.keys.list() == []
    for operation in (app.keys.get, app.keys.revoke):
        with pytest.raises(NotFound):
            await operation(made.id)
    checked = await app.keys.check(made.token)
    assert checked is not None
    assert (checked.id, checked.namespace) == (made.id, "billing")
    assert await app.keys.any_active()
    assert await app.audit.list() == []


@pytest.mark.requirement("S2")
async def test_an_app_for_another_namespace_sees_and_changes_only_that_namespace(
    app: App,
) -> None:
    record_payloads(app, "work")
    billing = app.within("billing")
    ours = await app.deliver("work", {"of": "ours"})
    with pytest.raises(NotFound):
        await billing.get(ours.id)
    with pytest.raises(NotFound):
        await billing.cancel(ours.id)
    await billing.endpoints.add("shop", "https://shop.example/hook")
    with pytest.raises(NotFound):
        await app.endpoints.get("shop")
    assert await billing.list() == []
    assert [each.id for each in await app.list()] == [ours.id]
    assert (await billing.deliver("work")).id, "this process serves that namespace too"
    assert app.within("default").store is app.store
    assert app.within("billing").store is billing.store


async def test_every_service_records_the_actor(app: App) -> None:
    view = app.acting_as("key:zed")
    await view.endpoints.add("shop", "https://shop.example/hook")
    await view.streams.configure("orders", on_failure="release")
    async for _ in view.endpoints.recover("shop", since=app.clock.now()):
        pass
    app.expect("work")
    id = (await view.deliver("work", after=60)).id
    await view.retry(id)
    await view.cancel(id)
    members = [(await view.deliver("work", after=60, stream="orders")).id for _ in range(2)]
    await view.retry(members[0])
    await view.cancel(members[1])
    entries = [(each.action, each.subject) for each in await app.audit.list(limit=4)]
    assert entries == [
        ("delivery.cancelled", members[1]),
        ("delivery.retried", members[0]),
        ("delivery.cancelled", id),
        ("delivery.retried", id),
    ]
    await view.cancel(id)  # a second time: nothing is changed or written
    assert {each.actor for each in await app.audit.list()} == {"key:zed"}
    assert len(await app.audit.list()) == 7
    await app.endpoints.pause("shop")
    assert (await app.audit.list(limit=1))[0].actor == "python"
