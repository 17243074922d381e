"""The views of `duly top`: which lists and records can be shown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from duly.records.state import State
from duly.records.stream import StreamState

PAGE_ROWS = 100
MOST_ROWS = 1000


class Kind(StrEnum):
    """What a view shows."""

    OVERVIEW = "Overview"
    DELIVERIES = "Deliveries"
    DEAD_LETTERS = "Dead letters"
    SCHEDULES = "Schedules"
    STREAMS = "Streams"
    ENDPOINTS = "Endpoints"
    WORKERS = "Workers"
    GROUP = "Group"
    DELIVERY = "Delivery"
    SCHEDULE = "Schedule"
    STREAM = "Stream"
    ENDPOINT = "Endpoint"
    WORKER = "Worker"


TABS = (
    *(Kind.OVERVIEW, Kind.DELIVERIES, Kind.DEAD_LETTERS, Kind.SCHEDULES),
    *(Kind.STREAMS, Kind.ENDPOINTS, Kind.WORKERS),
)
"""The views that one can switch between, in their order."""
RECORDS = (Kind.DELIVERY, Kind.SCHEDULE, Kind.STREAM, Kind.ENDPOINT)
"""The views that show one record as text."""
STATES: dict[Kind, tuple[str, ...]] = {
    Kind.DELIVERIES: ("", *State),
    Kind.STREAMS: ("", StreamState.BLOCKED, StreamState.PAUSED),
}
"""The states that a list can be limited to; the empty one shows all."""


@dataclass(frozen=True, slots=True)
class View:
    """What is read and shown: equal views show the same.

    `name` is the record or group, `state` and `text` limit a list, and `limit` is its length.
    """

    kind: Kind
    name: str = ""
    state: str = ""
    text: str = ""
    limit: int = PAGE_ROWS

    @property
    def is_list(self) -> bool:
        """Whether it has rows that can be filtered."""
        return self.kind not in (*RECORDS, Kind.OVERVIEW)
