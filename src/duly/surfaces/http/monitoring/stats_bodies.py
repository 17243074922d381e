"""Figures as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from duly.errors import InvalidInput
from duly.records.alert import Alert
from duly.records.stats import Counts
from duly.records.status import NamespaceStatus

Moment = Annotated[datetime, Meta(tz=True)]


Span = Annotated[float, Meta(ge=0, description="so many seconds before, in place of `since`")]


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """How it stands now, and what happened in the last hour."""

    now: NamespaceStatus
    last_hour: Counts


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


class AlertPage(msgspec.Struct, frozen=True, kw_only=True):
    """Alerts, newest first."""

    items: list[Alert]
    next: int | None = None


def begin(since: datetime | None, span: float | None) -> datetime | float | None:
    """From when: a moment, or so many seconds before; None when nothing was said."""
    if since is not None and span is not None:
        raise InvalidInput("span", "give it or since, not both")
    return since if span is None else span
