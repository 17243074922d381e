"""The App that a request is for, and what names the things that it makes."""

from __future__ import annotations

from typing import Any

from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from duly.app import App

Served = NamedDependency[SkipValidation[App]]
"""`duly_app: Served` in a route: the app of the caller's namespace."""
Seed = NamedDependency[SkipValidation[str | None]]
"""`seed: Seed` in a route: the id of what it makes, the same if it is carried out again."""


def seeded(request: ASGIConnection[Any, Any, Any, Any]) -> str | None:
    """The seed, if the request carries a key."""
    seed: str | None = request.scope["state"].get("seed")
    return seed
