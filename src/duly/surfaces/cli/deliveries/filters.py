"""The flags that select deliveries."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any

from cyclopts import Parameter

from duly.records.state import State
from duly.surfaces.cli.terminal.bulk import flag
from duly.surfaces.cli.terminal.times import moment_or_ago


@Parameter(name="*")
@dataclass(frozen=True)
class DeliveryCriteria:
    """A filter: deliveries that match all given flags."""

    id: Annotated[str | None, Parameter(help="The first characters of their ids; at least 4.")] = (
        None
    )
    target: Annotated[
        str | None,
        Parameter(help="Where they go: a handler, endpoint:NAME, or https://example.org."),
    ] = None
    tag: Annotated[str | None, Parameter(help="A tag they have.")] = None
    key: Annotated[str | None, Parameter(help="Their key.")] = None
    stream: Annotated[str | None, Parameter(help="Their stream.")] = None
    batch: Annotated[str | None, Parameter(help="The id of their batch.")] = None
    schedule: Annotated[str | None, Parameter(help="The schedule they come from.")] = None
    reason: Annotated[str | None, Parameter(help="Why they failed, or were cancelled.")] = None
    text: Annotated[str | None, Parameter(help="A text in their error, payload or key.")] = None
    since: Annotated[
        str | None,
        Parameter(help="Those accepted since then: 2026-11-16T09:00Z, or 2h for two hours ago."),
    ] = None
    until: Annotated[str | None, Parameter(help="Those accepted until then.")] = None
    late_over: Annotated[
        str | None,
        Parameter(
            help="Those that started, or still wait, more than this after they were due: 5m."
        ),
    ] = None

    def checked(self, now: datetime) -> dict[str, Any]:
        """As `app.deliveries` takes it."""
        given = asdict(self)
        for name in ("since", "until"):
            if given[name] is not None:
                given[name] = moment_or_ago(name, given[name], now)
        return given

    def flags(self, now: datetime) -> list[str]:
        """The same filter as command-line flags; a duration becomes a moment."""
        return [
            part
            for name, value in self.checked(now).items()
            if value is not None
            for part in flag(name, value.isoformat() if isinstance(value, datetime) else value)
        ]


@Parameter(name="*")
@dataclass(frozen=True)
class CancelCriteria(DeliveryCriteria):
    """Which deliveries to cancel."""

    state: Annotated[
        str | None, Parameter(help="processing: ask those that run; otherwise pending ones.")
    ] = None


@Parameter(name="*")
@dataclass(frozen=True)
class DeliveryFlags(DeliveryCriteria):
    """Which deliveries to list."""

    state: Annotated[str | None, Parameter(help=f"{', '.join(State)}.")] = None
    sort: Annotated[
        str | None, Parameter(help="lateness: the most late first; otherwise the newest.")
    ] = None
    before: Annotated[
        str | None, Parameter(help="The last id of the previous page; with --sort, its `next`.")
    ] = None


CRITERIA = DeliveryCriteria()
CANCEL_CRITERIA = CancelCriteria()
WANTED = DeliveryFlags()
