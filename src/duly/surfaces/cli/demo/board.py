"""What the demo shows while it runs: what happened, the server, and what has arrived."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from duly.ports import Clock
from duly.surfaces.cli.demo.arrivals import Arrivals
from duly.surfaces.cli.demo.counting import Kind


class ServerState(StrEnum):
    """What the server of the demo does."""

    STARTING = "starting"
    RUNNING = "running"
    KILLED = "killed"


class Board:
    """The state that is drawn; every new line is also passed to `on_line`."""

    def __init__(
        self, accepted: Mapping[Kind, int], clock: Clock, on_line: Callable[[str], None]
    ) -> None:
        self.accepted = dict(accepted)
        self.arrivals = Arrivals()
        self.lines: list[str] = []
        self.server = ServerState.STARTING
        self.waiting = 0
        self._clock = clock
        self._began_at = clock.monotonic()
        self._on_line = on_line

    @property
    def total(self) -> int:
        """How much the demo accepts in all."""
        return sum(self.accepted.values())

    def has_all(self) -> bool:
        """Whether all of every kind has arrived."""
        arrived = self.arrivals.by_kind
        return all(arrived[kind] >= many for kind, many in self.accepted.items())

    def say(self, text: str) -> None:
        """Add a line with the seconds since the start."""
        line = f"{self._clock.monotonic() - self._began_at:5.1f}s  {text}"
        self.lines.append(line)
        self._on_line(line)

    def began(self, url: str) -> None:
        """The receiver listens."""
        self.say(f"a receiver of webhooks listens on {url}")

    def serves(self, pid: int) -> None:
        """A server runs."""
        again = " again" if self.server is ServerState.KILLED else ""
        self.server, self.waiting = ServerState.RUNNING, 0
        self.say(f"duly serve runs{again}, as process {pid}")

    def took(self, online: Mapping[Kind, int]) -> None:
        """The server has accepted the work."""
        counts = ", ".join(f"{many} {kind}" for kind, many in online.items())
        self.say(f"accepted and on disk: {counts}")

    def killed(self, pid: int) -> None:
        """The server was killed."""
        self.server = ServerState.KILLED
        self.say(f"kill -9 {pid}: {self.arrivals.count} of {self.total} have arrived")

    def accepted_offline(self, many: int) -> None:
        """Deliveries were accepted without a server."""
        self.say(f"without a server, {many} more are accepted into the store")

    def waits(self, many: int) -> None:
        """While the server is away, so many are due."""
        self.waiting = many
        self.say(f"no server runs: {many} deliveries are due and wait")

    def caught_up(self) -> None:
        """Everything arrived, or the time for it is over."""
        self.say(f"{self.arrivals.count} of {self.total} have arrived")
