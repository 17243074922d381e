"""The receiver of the sample traffic: a path for each kind of endpoint, healthy or not."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime

from duly.surfaces.cli.demo.sample_names import FAILING, FLAKY, HEALTHY, HOST, PICKY, SLOW
from duly.surfaces.cli.receiving.received import Inbox, Received
from duly.surfaces.cli.receiving.receiver import open_port

SLOW_SECONDS, USUAL_SECONDS = 2.0, 0.02


class SampleInbox:
    """Answers by the path: `/demo-flaky` fails once for each delivery, `/demo-failing` always."""

    def __init__(self) -> None:
        self._inboxes = {
            f"/{HEALTHY}": Inbox("", [], 200),
            f"/{SLOW}": Inbox("", [], 200),
            f"/{FLAKY}": Inbox("", [500], 200),
            f"/{FAILING}": Inbox("", [], 503),
            f"/{PICKY}": Inbox("", [], 422),
        }
        self._others = Inbox("", [], 404)

    def take(
        self, at: datetime, line: tuple[str, str], headers: Mapping[str, str], body: bytes
    ) -> Received:
        """Record a request; `line` is its method and path."""
        return self._inboxes.get(line[1], self._others).take(at, line, headers, body)


def sample_receiver() -> AbstractAsyncContextManager[str]:
    """Receive the sample traffic on a free port of this machine; it yields the URL."""
    return open_port(SampleInbox(), _ignore, HOST, 0, _pause)


def _ignore(_received: Received) -> None:
    """Nothing is kept."""


def _pause(received: Received) -> float:
    return SLOW_SECONDS if received.path == f"/{SLOW}" else USUAL_SECONDS
