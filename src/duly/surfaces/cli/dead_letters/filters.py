"""The flags that select dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated

from cyclopts import Parameter

from duly.errors import InvalidInput
from duly.records.dead_letter import DeadLetterFilter
from duly.records.reason import Reason
from duly.surfaces.cli.terminal.bulk import flag
from duly.surfaces.cli.terminal.times import moment_or_ago

Text = str | None


@Parameter(name="*")
@dataclass(frozen=True)
class DeadLetterFlags:
    """A filter: dead letters that match all given flags."""

    reason: Annotated[Text, Parameter(help=f"{', '.join(Reason)}, or operator.")] = None
    fingerprint: Annotated[
        Text, Parameter(help="The fingerprint of their errors, as `duly dead groups` shows it.")
    ] = None
    target: Annotated[
        Text, Parameter(help="Where they go: a handler, endpoint:NAME, or https://example.org.")
    ] = None
    stream: Annotated[Text, Parameter(help="Their stream.")] = None
    schedule: Annotated[Text, Parameter(help="The schedule they come from.")] = None
    disposition: Annotated[
        Text, Parameter(help="open (neither held nor given up), recovering, held or given_up.")
    ] = None
    tag: Annotated[Text, Parameter(help="A tag they have.")] = None
    text: Annotated[Text, Parameter(help="A text in their error, payload or key.")] = None
    since: Annotated[
        Text,
        Parameter(help="Those that died since then: 2026-11-16T09:00Z, or 2h for two hours ago."),
    ] = None
    until: Annotated[Text, Parameter(help="Those that died until then.")] = None

    def filter(self, now: datetime, ids: Sequence[str] = ()) -> DeadLetterFilter:
        """The filter as `app.dead_letters` takes it."""
        given = asdict(self)
        for name in ("since", "until"):
            if given[name] is not None:
                given[name] = moment_or_ago(name, given[name], now)
        return DeadLetterFilter(**given, ids=tuple(ids))

    def required(self, now: datetime, ids: Sequence[str], everything: bool) -> DeadLetterFilter:
        """The filter of a bulk operation; without any filter, `everything` is required."""
        found = self.filter(now, ids)
        if found == DeadLetterFilter() and not everything:
            raise InvalidInput("filter", "give ids, a filter, or --all for all dead letters")
        return found

    def flags(self, now: datetime) -> list[str]:
        """The same filter as command-line flags; a duration becomes a moment."""
        found = self.filter(now)
        return [
            part
            for name in asdict(self)
            if (value := getattr(found, name)) is not None
            for part in flag(name, value.isoformat() if isinstance(value, datetime) else value)
        ]


FLAGS = DeadLetterFlags()
