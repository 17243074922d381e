"""A birthday service on top of duly: registered users are greeted once a year."""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duly_birthday.service import BirthdayApp

    app: BirthdayApp

__all__ = ["app"]


def __getattr__(name: str) -> Any:
    # Built on first use: importing a part of the package must not need a database.
    if name == "app":
        return _app()
    raise AttributeError(f"module 'duly_birthday' has no attribute {name!r}")


@cache
def _app() -> Any:
    from duly_birthday.service import BirthdayApp

    return BirthdayApp()
