"""A wrong registration is refused where it is written, not at the first delivery."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import duly
from duly import App, InvalidInput
from duly.testing import run_until_idle

pytestmark = pytest.mark.requirement("S6")


class Called:
    async def __call__(self, delivery: Any) -> None:
        """A callable object."""


def nothing() -> None: ...


def two(delivery: Any, other: Any) -> None: ...


def named_only(*, delivery: Any) -> None: ...


def needs_a_name(delivery: Any, *, other: Any) -> None: ...


def yields(delivery: Any) -> Iterator[None]:
    yield


async def yields_later(delivery: Any) -> AsyncIterator[None]:
    yield


def untyped(team: int, other) -> None: ...  # type: ignore[no-untyped-def]


def without_names(delivery: duly.Delivery[Any], other: int, /) -> None: ...


def unreadable(app: App) -> None: ...


def deeply_unreadable(apps: dict[str, list[App | None]]) -> None: ...


def unknown(other: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def only_for_checkers(delivery: shop.OrderDelivery[Nowhere]) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def twice(one: duly.Delivery[Any], two: duly.Delivery[Any]) -> None: ...


def with_rest(other: int, **rest: int) -> None: ...


def optional(delivery: Any, other: int = 1, *more: Any, third: int = 3, **rest: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (nothing, None),
        (two, None),
        (named_only, None),
        (needs_a_name, None),
        (untyped, "untyped has no type for 'other'; write one, as in `other: int`"),
        (without_names, "'other' without a name to call it by; take the / out"),
        (unreadable, "the type App for 'app', which cannot be read from JSON"),
        (deeply_unreadable, "the type App for 'apps', which cannot be read from JSON"),
        (unknown, "'Nowhere' for 'other', which cannot be found.*outside of `if TYPE_CHECKING`"),
        (twice, "takes the delivery twice"),
        (yields, "yields is a generator, whose body would never run"),
        (yields_later, "yields_later is a generator"),
        (functools.partial(two, other=1), None),
        (functools.partial(nothing), None),
        (optional, r"has \*more: .*Any.*; write out the parameters"),
        (with_rest, r"has \*\*rest"),
        (only_for_checkers, None),
        (Called(), None),
        (lambda delivery: None, None),
        ([].append, None),
        ("work", "'work' is no function"),
    ],
)
def test_a_handler_that_could_never_run_is_refused_at_registration(
    function: Any, problem: str | None
) -> None:
    app = App(environment={})
    if problem is None:
        app.handler("work")(function)
        assert app.handlers.serves() == ["work"]
        return
    with pytest.raises(InvalidInput, match=problem) as refusal:
        app.handler("work")(function)
    assert refusal.value.field == "handler"
    assert app.handlers.serves() == []


async def test_the_default_name_of_a_handler_is_its_module_and_function(small_app: App) -> None:
    seen: list[str] = []

    @small_app.handler
    async def bare(delivery: Any) -> None:
        seen.append(delivery.target)

    @small_app.handler(timeout=5)
    async def nameless(delivery: Any) -> None:
        seen.append(delivery.target)

    assert (bare.__name__, nameless.__name__) == ("bare", "nameless")
    expected = [f"{__name__}.bare", f"{__name__}.nameless"]
    assert small_app.handlers.serves() == expected
    for target in expected:
        await small_app.deliver(target)
    await run_until_idle(small_app)
    assert sorted(seen) == expected


def test_a_callable_without_a_name_needs_one() -> None:
    app = App(environment={})
    for function in (lambda delivery: None, functools.partial(optional), Called()):
        with pytest.raises(InvalidInput, match=r'write @app.handler\("a.name"\)'):
            app.handler(function)
    for name in (7, "no name", ""):
        with pytest.raises(InvalidInput, match="is not a name"):
            app.handler(name)  # type: ignore[arg-type]


def test_a_schedule_decorator_is_checked_where_it_is_written() -> None:
    app = App(environment={})

    def work(delivery: Any) -> None: ...

    with pytest.raises(InvalidInput, match=r"rule: .* is no rule; make one with duly\.cron"):
        app.schedule(work)  # type: ignore[call-overload]
    with pytest.raises(InvalidInput, match="cap: 0 is not a whole number"):
        app.schedule(duly.every("1h"), cap=0)
