"""Everything that is a coroutine, an async iterator or an async block is under `.sync` too."""

import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from duly import App, Client
from duly.sync.blocking import Blocking

pytestmark = pytest.mark.requirement("P2")
INTERNAL = {
    "migrate_more": "overridden by applications, never called by them",
    "declarations.declare_all": "called when the App opens",
    "declarations.find_orphans": "called when a worker starts",
    "declarations.prune": "called by its own loop",
    "schedules.declare_in_code": "called when the App opens",
    "stats.live.tick": "called by its own loop",
    "stats.live.stop": "called when the App closes",
    "stats.stop": "called when the App closes",
}
PARTS = {
    *("store", "vault", "parts", "telemetry", "rollup_writer", "handlers", "webhooks", "clock"),
    *("endpoint_cache", "transports", "chance", "settings", "requests"),
}
"""Attributes of an App that are not for its callers."""


def members(whole: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """The public methods of an object and of its resources, by their paths."""
    for name in dir(whole):
        if name in PARTS or (name.startswith("_") and name != "__call__") or name == "sync":
            continue
        member = getattr(whole, name)
        if inspect.ismethod(member) or inspect.isfunction(member):
            if getattr(member, "__module__", "").startswith("duly."):
                yield f"{path}{name}", member
        elif type(member).__module__.startswith(("duly.services", "duly.client")):
            yield from members(member, f"{path}{name}.")


def is_async(method: Any) -> bool:
    returned = str(inspect.signature(method).return_annotation)
    kinds = (AsyncIterator, AbstractAsyncContextManager)
    return (
        inspect.iscoroutinefunction(method)
        or inspect.isasyncgenfunction(method)
        or returned.startswith(("AsyncIterator", "AsyncGenerator", "Coroutine"))
        or any(returned.startswith(each.__name__) for each in kinds)
        or inspect.isasyncgenfunction(inspect.unwrap(method))
    )


def asynchronous(whole: object) -> dict[str, Any]:
    return {path: each for path, each in members(whole) if is_async(each) and path not in INTERNAL}


def found(whole: Any, path: str) -> Any:
    for name in path.split("."):
        whole = getattr(whole, name, None)
    return whole


@pytest.fixture(params=["app", "client"])
def whole(request: pytest.FixtureRequest) -> Any:
    if request.param == "app":
        return App("sqlite:///unused.db", environment={})
    return Client("http://127.0.0.1:1")


def test_no_method_is_missing(whole: Any) -> None:
    paths = asynchronous(whole)
    assert len(paths) > 70
    assert {"deliver", "schedules.pause", "deliveries.cancel_all", "stats.__call__"} <= set(paths)
    assert [path for path in paths if found(whole.sync, path) is None] == []


def parameters(method: Any) -> tuple[list[Any], dict[str, Any]]:
    """Those by place in their order, and those by name only; type checkers compare the types."""
    found = inspect.signature(method).parameters.values()
    by_name = [each for each in found if each.kind is each.KEYWORD_ONLY]
    by_place = [(each.name, each.kind, each.default) for each in found if each not in by_name]
    return by_place, {each.name: each.default for each in by_name}


def test_each_has_the_parameters_of_its_async_form(whole: Any) -> None:
    different = [
        path
        for path, method in asynchronous(whole).items()
        if path != "schedule" and parameters(method) != parameters(found(whole.sync, path))
    ]
    assert different == []


def test_none_is_a_coroutine(whole: Any) -> None:
    def check(part: Any) -> Iterator[str]:
        for name in dir(part):
            member = getattr(part, name)
            if isinstance(member, Blocking):
                yield from check(member)
            elif not name.startswith("_") and inspect.iscoroutinefunction(member):
                yield name

    assert list(check(whole.sync)) == []


def test_a_handler_has_all_of_its_methods() -> None:
    app = App("sqlite:///unused.db", environment={})

    @app.handler
    async def weekly(team: int) -> None: ...

    for handler in (weekly, weekly.using(after=1)):
        names = [name for name, each in members(handler) if inspect.iscoroutinefunction(each)]
        assert names == ["deliver", "deliver_many"]
        for name in [*names, "item"]:
            own = inspect.signature(getattr(handler.sync, name)).parameters
            assert list(own) == list(inspect.signature(getattr(handler, name)).parameters)
