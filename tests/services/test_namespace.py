"""A namespace for one actor: what actors share, and what they do not."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from duly import App, Delivery, Namespace
from duly.errors import Conflict
from duly.testing import run_until_idle
from tests.services.conftest import noted

NAMESPACES = [
    pytest.param(lambda app: app, id="own"),
    pytest.param(lambda app: app.within("billing"), id="another"),
]


async def change_everything(there: Namespace, name: str) -> None:
    """Change something through each service that writes to the audit trail."""
    await there.endpoints.add(name, f"https://{name}.example/hook")
    await there.streams.configure(name, on_failure="release")
    await there.keys.create(name)
    waiting = (await there.deliver("work", after=60, tags=[name])).id
    await there.retry(waiting)
    await there.cancel(waiting)
    await there.deliveries.cancel((await there.deliver("work", after=60, tags=[name])).id)
    async for _ in there.endpoints.recover(name, since=there.clock.now()):
        pass
    await there.endpoints.remove(name)


async def subjects(there: Namespace, actor: str | None) -> list[str]:
    """What the actor changed, by what names the subject."""
    tags = {each.id: each.tags[0] for each in await there.list(limit=100) if each.tags}
    names = {each.id: each.name for each in await there.keys.list()}
    return [
        tags.get(each.subject) or names.get(each.subject) or each.subject
        for each in await there.audit.list(limit=200)
        if each.actor == actor
    ]


@pytest.mark.requirement("S2")
@pytest.mark.parametrize("of", NAMESPACES)
async def test_of_two_actors_at_once_each_is_named_for_its_own_changes(
    app: App, of: Callable[[App], Namespace]
) -> None:
    there = of(app)
    there.expect("work")
    actors = [there.acting_as(name) for name in ("ann", "bob")]
    await asyncio.gather(
        *(change_everything(each, str(each.actor)) for each in actors),
        change_everything(there, "nobody"),
    )
    for name in ("ann", "bob"):
        assert sorted(await subjects(there, name)) == ["all that match", *[name] * 7]
    # The program itself leaves no entry for a delivery that it moves.
    assert sorted(await subjects(there, "python")) == ["all that match", *["nobody"] * 4]
    assert there.actor is None


async def test_an_actor_of_an_actor_is_the_last_one_named(app: App) -> None:
    there = app.within("billing").acting_as("ann").acting_as("bob")
    await there.keys.create("ops")
    assert [each.actor for each in await there.audit.list()] == ["bob"]
    assert there.store is app.store.within("billing")


async def test_an_app_may_be_made_for_an_actor(sqlite_url: str) -> None:
    async with App(sqlite_url, actor="ann", environment={}) as app:
        app.expect("work")
        await app.cancel((await app.deliver("work", after=60)).id)
        assert [each.actor for each in await app.audit.list()] == ["ann"]


@pytest.mark.parametrize("of", NAMESPACES)
async def test_actors_of_a_namespace_share_their_commits(
    app: App, of: Callable[[App], Namespace], monkeypatch: pytest.MonkeyPatch
) -> None:
    noted(app, "work")
    there = of(app)
    await there.deliver("work")
    batches: list[int] = []
    accept = there.store.deliveries.accept

    async def counted(requests: Sequence[Any]) -> Any:
        batches.append(len(requests))
        return await accept(requests)

    monkeypatch.setattr(there.store.deliveries, "accept", counted)
    actors = [there.acting_as(f"actor {number}") for number in range(10)]
    await asyncio.gather(*(each.deliver("work") for each in actors))
    assert sum(batches) == 10
    assert len(batches) < 10


async def test_what_one_actor_expects_the_others_know(app: App) -> None:
    ann, bob = app.acting_as("ann"), app.acting_as("bob")
    ann.expect("work")
    await bob.deliver("work")
    await app.deliver("work")


async def test_actors_of_a_namespace_share_who_listens_and_what_is_under_way(app: App) -> None:
    there = app.within("billing")
    ann, bob = there.acting_as("ann"), there.acting_as("bob")
    assert ann.stats.live is bob.stats.live is there.stats.live
    assert ann.stats.live is not app.stats.live
    await ann.requests.begin("k", "f", repeatable=True)
    with pytest.raises(Conflict, match="under way"):
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
async def test_short_forms_answer_as_the_resource_does(small_app: App, name: str) -> None:
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
