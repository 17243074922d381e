"""A namespace for one actor: what actors share, and what they do not share."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from duly import App, Delivery, Namespace
from duly.errors import Conflict
from duly.testing import run_until_idle
from tests.services.conftest import record_payloads

NAMESPACES = [
    pytest.param(lambda app: app, id="own"),
    pytest.param(lambda app: app.within("billing"), id="another"),
]


async def change_everything(namespace: Namespace, name: str) -> None:
    """Change something through each service that writes to the audit trail."""
    await namespace.endpoints.add(name, f"https://{name}.example/hook")
    await namespace.streams.configure(name, on_failure="release")
    await namespace.keys.create(name)
    waiting = (await namespace.deliver("work", after=60, tags=[name])).id
    await namespace.retry(waiting)
    await namespace.cancel(waiting)
    await namespace.deliveries.cancel((await namespace.deliver("work", after=60, tags=[name])).id)
    async for _ in namespace.endpoints.recover(name, since=namespace.clock.now()):
        pass
    await namespace.endpoints.remove(name)


async def subjects(namespace: Namespace, actor: str | None) -> list[str]:
    """The names of what the actor changed."""
    tags = {each.id: each.tags[0] for each in await namespace.list(limit=100) if each.tags}
    names = {each.id: each.name for each in await namespace.keys.list()}
    return [
        tags.get(each.subject) or names.get(each.subject) or each.subject
        for each in await namespace.audit.list(limit=200)
        if each.actor == actor
    ]


@pytest.mark.requirement("S2")
@pytest.mark.parametrize("of", NAMESPACES)
async def test_concurrent_actors_are_recorded_with_their_own_changes(
    app: App, of: Callable[[App], Namespace]
) -> None:
    namespace = of(app)
    namespace.expect("work")
    actors = [namespace.acting_as(name) for name in ("ann", "bob")]
    await asyncio.gather(
        *(change_everything(each, str(each.actor)) for each in actors),
        change_everything(namespace, "python"),
    )
    for name in ("ann", "bob"):
        assert sorted(await subjects(namespace, name)) == ["all that match", *[name] * 7]
    # The program itself leaves no entry for a delivery that it changes.
    assert sorted(await subjects(namespace, "python")) == ["all that match", *["python"] * 4]
    assert namespace.actor is None


async def test_the_last_actor_named_counts(app: App) -> None:
    namespace = app.within("billing").acting_as("ann").acting_as("bob")
    await namespace.keys.create("ops")
    assert [each.actor for each in await namespace.audit.list()] == ["bob"]
    assert namespace.store is app.store.within("billing")


async def test_an_app_can_be_created_for_an_actor(sqlite_url: str) -> None:
    async with App(sqlite_url, actor="ann", environment={}) as app:
        app.expect("work")
        await app.cancel((await app.deliver("work", after=60)).id)
        assert [each.actor for each in await app.audit.list()] == ["ann"]


@pytest.mark.parametrize("of", NAMESPACES)
async def test_actors_of_a_namespace_share_commits(
    app: App, of: Callable[[App], Namespace], monkeypatch: pytest.MonkeyPatch
) -> None:
    record_payloads(app, "work")
    namespace = of(app)
    await namespace.deliver("work")
    batches: list[int] = []
    accept = namespace.store.deliveries.accept

    async def record(requests: Sequence[Any]) -> Any:
        batches.append(len(requests))
        return await accept(requests)

    monkeypatch.setattr(namespace.store.deliveries, "accept", record)
    actors = [namespace.acting_as(f"actor {number}") for number in range(10)]
    await asyncio.gather(*(each.deliver("work") for each in actors))
    assert sum(batches) == 10
    assert len(batches) < 10


async def test_actors_share_expected_handlers(app: App) -> None:
    ann, bob = app.acting_as("ann"), app.acting_as("bob")
    ann.expect("work")
    await bob.deliver("work")
    await app.deliver("work")


async def test_actors_of_a_namespace_share_listeners_and_running_requests(app: App) -> None:
    namespace = app.within("billing")
    ann, bob = namespace.acting_as("ann"), namespace.acting_as("bob")
    assert ann.stats.live is bob.stats.live is namespace.stats.live
    assert ann.stats.live is not app.stats.live
    await ann.requests.begin("k", "f", repeatable=True)
    with pytest.raises(Conflict, match="in progress"):
        await bob.requests.begin("k", "f", repeatable=True)


SHORT_FORMS: dict[str, Callable[[Any, str], Awaitable[Any]]] = {
    "get": lambda of, id: of.get(id),
    "list": lambda of, id: of.list(id=id, limit=2),
    "page": lambda of, id: of.page(state="pending", limit=2),
    "attempts": lambda of, id: of.attempts(id),
    "steps": lambda of, id: of.steps(id),
    "retry": lambda of, id: of.retry(id),
    "cancel": lambda of, id: of.cancel(id),
}


@pytest.mark.parametrize("name", SHORT_FORMS)
async def test_short_forms_return_the_same_as_the_resource(small_app: App, name: str) -> None:
    @small_app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        async with delivery.step("first") as step:
            step.keep(1)

    if name in ("attempts", "steps"):
        id = (await small_app.deliver("work")).id
        await run_until_idle(small_app)
    else:
        id = (await small_app.deliver("work", after=60)).id
    short = await SHORT_FORMS[name](small_app, id)
    assert short
    assert short == await SHORT_FORMS[name](small_app.deliveries, id)


async def test_stats_is_a_resource_and_a_short_form(small_app: App) -> None:
    assert await small_app.stats(60) == await small_app.stats.failures(60)
    assert (await small_app.stats.series(60)) == await small_app.series(60)
