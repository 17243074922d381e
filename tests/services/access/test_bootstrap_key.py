"""The first key of a store, from the settings: created once, by one process, and never shown."""

import asyncio

import pytest

from duly import App
from duly.domain.access.keys import new_token
from duly.errors import InvalidInput
from duly.settings import load

pytestmark = pytest.mark.requirement("S2")


def token(number: int) -> str:
    return new_token(bytes((number * 7 + each * 37) % 256 for each in range(42)))[1]


async def test_a_store_without_keys_gets_one_admin_key(app: App) -> None:
    made = await app.keys.bootstrap(token(1))
    assert made is not None
    assert (made.name, made.scope, made.namespace) == ("bootstrap", "admin", "default")
    checked = await app.keys.check(token(1))
    assert checked is not None
    assert checked.record(app.clock.now()) == made
    assert [each.action for each in await app.audit.list()] == ["key.created"]
    assert token(1).rpartition("_")[2] not in repr(await app.audit.list())
    assert await app.keys.bootstrap(token(1)) is None
    assert await app.keys.bootstrap(token(2)) is None
    assert await app.keys.check(token(2)) is None
    # A revoked key is not created again at the next start.
    await app.keys.revoke(made.id)
    assert await app.keys.bootstrap(token(1)) is None
    assert await app.keys.bootstrap(token(2)) is None
    assert await app.keys.check(token(1)) is None


async def test_keys_of_other_namespaces_count(app: App) -> None:
    await app.within("billing").keys.create("theirs")
    assert await app.keys.bootstrap(token(1)) is None
    assert await app.keys.list() == []


async def test_of_concurrent_processes_one_creates_it(database_url: str) -> None:
    apps = [App(database_url, environment={}) for _ in range(4)]
    for each in apps:
        await each.open()
    try:
        # Each with a different key: even then only one is created.
        calls = [each.keys.bootstrap(token(number)) for number, each in enumerate(apps)]
        made = await asyncio.gather(*calls)
        assert len([each for each in made if each is not None]) == 1
        assert len(await apps[0].keys.list()) == 1
    finally:
        for each in apps:
            await each.close()


@pytest.mark.parametrize(
    "wrong", ["hush", "duly_hush", token(1)[:-1], token(1) + "a", f"duly_{'h' * 16}_{'hush' * 13}"]
)
def test_an_invalid_key_is_refused_without_being_shown(wrong: str) -> None:
    with pytest.raises(InvalidInput, match="duly keys bootstrap") as raised:
        load({}, {"DULY_BOOTSTRAP_KEY": wrong})
    assert raised.value.field == "bootstrap_key"
    assert wrong not in str(raised.value)


async def test_an_invalid_key_is_refused_in_python_too(app: App) -> None:
    with pytest.raises(InvalidInput, match="bootstrap_key"):
        await app.keys.bootstrap("hush")
