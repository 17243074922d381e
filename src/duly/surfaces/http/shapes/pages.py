"""A list's query: where to go on, and how much at once."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from msgspec import Meta

LONGEST_PAGE = 1000


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What may be said of a page."""

    cursor: Annotated[str, Meta(description="`next` of the page before")] | None = None
    limit: Annotated[int, Meta(ge=1, le=LONGEST_PAGE)] = 50


Wanted = NamedDependency[SkipValidation[PageQuery]]
