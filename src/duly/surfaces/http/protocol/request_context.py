"""The App that a request is for, and what names the things that it makes."""

from __future__ import annotations

from typing import Any

from litestar import Request
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from duly.services.namespace import Namespace

AnyRequest = Request[Any, Any, Any]
Served = NamedDependency[SkipValidation[Namespace]]
"""`duly_app: Served` in a route: the app of the caller's namespace.

The hottest route has no other dependency: several are resolved in tasks of their own, which costs
as much as all the rest.
"""


def seed_of(request: AnyRequest) -> str | None:
    """The id of what the request makes, the same when it is carried out again.

    None when it carries no Idempotency-Key: then it makes something new each time.
    """
    seed: str | None = request.scope["state"].get("seed")
    return seed
