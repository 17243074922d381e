"""Queries of `/v1/stats` and `/v1/alerts`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from duly.errors import InvalidInput
from duly.surfaces.http.protocol.bodies import Moment

Span = Annotated[float, Meta(ge=0, description="seconds before the end, in place of `since`")]


class FailuresQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Since when to count: a day ago if nothing is said."""

    since: Moment | None = None
    span: Span | None = None


class SeriesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """From when to when, and in which steps."""

    since: Annotated[Moment | None, Meta(description="an hour before `until` if left out")] = None
    span: Span | None = None
    until: Annotated[Moment | None, Meta(description="now if left out")] = None
    step: Annotated[int, Meta(ge=60, le=31 * 86400, description="seconds, in whole minutes")] = 60


class AlertsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which page of alerts, or only those that are raised."""

    raised: Annotated[bool, Meta(description="only those that are not over")] = False
    before: Annotated[int, Meta(ge=0, description="the `next` of the page before")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


def begin(since: datetime | None, span: float | None) -> datetime | float | None:
    """The start of a period: a moment, or seconds before its end; None if neither is given."""
    if since is not None and span is not None:
        raise InvalidInput("span", "give it or since, not both")
    return since if span is None else span
