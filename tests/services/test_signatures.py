"""Options are parameters that an editor completes: no public method accepts any keyword."""

import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any, TypedDict, Unpack

import pytest

from duly import App
from duly.resources import Resources

pytestmark = pytest.mark.requirement("S6")
RESOURCES = [name for name, each in vars(Resources).items() if isinstance(each, property)]


def test_no_public_method_accepts_any_keyword(sqlite_url: str) -> None:
    app = App(sqlite_url, environment={})
    assert len(RESOURCES) == 14
    holders = [app, app.within("billing"), *(getattr(app, name) for name in RESOURCES)]
    methods = [each for holder in holders for each in public_methods(type(holder))]
    assert len(methods) > 100
    assert [each.__qualname__ for each in methods if accepts_any_keyword(each)] == []


class Known(TypedDict, total=False):
    a: int


class Careless:
    def __init__(self, **options: Any) -> None: ...
    def plain(self, **options: Unpack[Known]) -> None: ...
    def careless(self, **options: Any) -> None: ...
    def objects(self, **options: object) -> None: ...
    def untyped(self, **options) -> None: ...  # type: ignore[no-untyped-def]
    def _private(self, **options: Any) -> None: ...
    @typing.overload
    def many(self, first: int, **options: Unpack[Known]) -> None: ...
    @typing.overload
    def many(self, first: str, **options: Any) -> None: ...
    def many(self, first: Any, **options: Any) -> None: ...
    @typing.overload
    def some(self, first: int, **options: Unpack[Known]) -> None: ...
    @typing.overload
    def some(self, first: str) -> None: ...
    def some(self, first: Any, **options: Any) -> None: ...


def test_a_method_that_accepts_any_keyword_is_reported() -> None:
    found = [each.__name__ for each in public_methods(Careless) if accepts_any_keyword(each)]
    assert sorted(found) == ["__init__", "careless", "many", "objects", "untyped"]


def public_methods(kind: type) -> Iterator[Callable[..., Any]]:
    for name, member in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") or name in ("__init__", "__call__"):
            yield member


def accepts_any_keyword(method: Callable[..., Any]) -> bool:
    """Whether one of its signatures has `**` without a typed dictionary."""
    return any(
        typing.get_origin(typing.get_type_hints(each).get(parameter.name)) is not Unpack
        for each in typing.get_overloads(method) or [method]
        for parameter in inspect.signature(each).parameters.values()
        if parameter.kind is parameter.VAR_KEYWORD
    )
