"""All open connections of the HTTP server, with limits of their number and slowness.

A periodic sweep checks every connection, instead of a timer for each request, so deadlines cost an
ordinary request nothing.
"""

from __future__ import annotations

import logging
from asyncio import get_running_loop
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

from duly.ports import Clock

logger = logging.getLogger("duly.http")

SWEEP_SECONDS = 1.0
HEAD_SECONDS = 10.0
"""For a request's line and headers, and for the first byte on a new connection."""
IDLE_SECONDS = 5.0
"""Between an answer and the next request."""
BODY_SECONDS = 20.0
"""For a body, plus a second for every `BODY_RATE` bytes that arrived."""
BODY_RATE = 500
LARGE_BODY = 1_048_576
LARGE_BODY_RATE = 50_000
"""Instead of `BODY_RATE` once more than `LARGE_BODY` bytes arrived: they are kept meanwhile."""
STALL_SECONDS = 60.0
"""Without progress while the client does not read its answer."""
LINGER_SECONDS = 2.0
"""For a refused client to read the answer, before the connection is cut."""
WARN_SECONDS = 10.0
YOUNG_SECONDS = 1.0
"""A request this new is probably about to be complete, and is closed last to make room."""
FIRST_REQUESTS = 4
"""First requests begun at each turn of the event loop."""
ROOM_SHARE = 20
"""At the limit a twentieth is closed at once: a search for each single one costs too much."""


class Phase(Enum):
    """What a connection waits for."""

    SILENT = auto()
    """Its first byte."""
    HEAD = auto()
    """The rest of a line and headers."""
    BODY = auto()
    """The rest of a body."""
    QUEUED = auto()
    """Its turn: its first request is not begun yet."""
    ANSWERING = auto()
    """The server's answer."""
    STALLED = auto()
    """The client, to read its answer."""
    IDLE = auto()
    """The next request."""
    SURPLUS = auto()
    """The rest of a body that was answered before its end."""
    REFUSED = auto()
    """The client, to read the refusal."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The problem that answers an unfinished request before the connection is closed."""

    status: int
    kind: str
    """How the log counts it."""
    detail: str


SLOW_HEAD = Refusal(
    408,
    "slow",
    f"the request line and headers did not arrive within {HEAD_SECONDS:g} seconds; send them again",
)
SLOW_BODY = Refusal(
    408,
    "slow",
    f"the body arrives too slowly: within {BODY_SECONDS:g} seconds, and one more for every "
    f"{BODY_RATE} bytes ({LARGE_BODY_RATE} of a body above {LARGE_BODY} bytes); send it again",
)
ROOM = "to make room"
FULL = Refusal(503, "refused", "too many connections are open here; try again in a moment")


class Open(Protocol):
    """What this file needs of a connection."""

    received: int
    """Bytes of all requests."""
    body_bytes: int
    """Bytes of the newest request's body so far."""
    seen: Seen | None

    def phase(self) -> Phase:
        """What it waits for now."""

    def request(self) -> object:
        """Identifies the current request."""

    def unsent(self) -> int:
        """Bytes of answers that the client has not read."""

    def refuse(self, refusal: Refusal) -> None:
        """Answer with a problem and close soon."""

    def close(self) -> None:
        """Close it after its answers are sent."""

    def cut(self) -> None:
        """Close it at once."""


class Seen:
    """The state in which a sweep found a connection, and since when."""

    __slots__ = ("at", "phase", "progress", "request")

    def __init__(self, phase: Phase, request: object, progress: int, at: float) -> None:
        self.phase = phase
        self.request = request
        self.progress = progress
        self.at = at

    def is_still(self, phase: Phase, request: object) -> bool:
        """Whether nothing was completed since."""
        return self.phase is phase and self.request is request


class FirstRequests:
    """Begins the first requests of new connections a few at a time.

    If a thousand clients connect at once, accepting them is cheap and answering is expensive. A
    probe of /health that comes after them waits only until they are accepted.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._left = FIRST_REQUESTS

    def begin(self, request: Callable[[], None]) -> None:
        """Begin it now, or in its turn."""
        if self._left == FIRST_REQUESTS:
            get_running_loop().call_soon(self._turn)
        if self._left > 0:
            self._left -= 1
            request()
        else:
            self._waiting.append(request)

    def _turn(self) -> None:
        """Begin requests that wait; nothing may overtake them, so they may use the whole turn."""
        self._left = FIRST_REQUESTS
        for _ in range(min(len(self._waiting), FIRST_REQUESTS)):
            self.begin(self._waiting.popleft())


class Connections:
    """At most `most` open connections."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self.most = most
        # In the order of arrival.
        self._open: dict[Any, None] = {}
        self.first_requests = FirstRequests()
        self._closed: Counter[str] = Counter()
        self._warned_at = float("-inf")
        self._is_packed = False
        """Whether the last search found nothing more to close; it is not repeated until a sweep."""

    def add(self, connection: Open) -> None:
        """Add a new one; if there are too many, others are closed for it, or it is refused.

        Unfinished requests are closed first, then idle connections, since an attack consists of
        these. A request that is being answered is never lost.
        """
        self._open[connection] = None
        if len(self._open) > self.most and not self._make_room(connection):
            self._refuse_full(connection)

    def discard(self, connection: Open) -> None:
        """Remove a closed one."""
        self._open.pop(connection, None)

    def count(self, kind: str) -> None:
        """Count a closed connection for the log."""
        self._closed[kind] += 1

    async def watch(self) -> None:
        """Sweep as long as the server runs."""
        while True:
            await self._clock.sleep(SWEEP_SECONDS)
            self.sweep()

    def sweep(self) -> None:
        """Close connections that are too slow, and log how many were closed."""
        now = self._clock.monotonic()
        self._is_packed = False
        for each in list(self._open):
            self._check_deadline(each, now)
        if self._closed and now - self._warned_at >= WARN_SECONDS:
            self._warned_at = now
            self._warn()

    def _check_deadline(self, connection: Open, now: float) -> None:
        phase, request, seen = connection.phase(), connection.request(), connection.seen
        if seen is None or not seen.is_still(phase, request):
            progress = connection.unsent() if phase is Phase.STALLED else connection.received
            connection.seen = Seen(phase, request, progress, now)
            return
        waited = now - seen.at
        match phase:
            case Phase.HEAD if waited >= HEAD_SECONDS:
                connection.refuse(SLOW_HEAD)
            case Phase.BODY if waited >= _body_seconds(connection, seen):
                connection.refuse(SLOW_BODY)
            case Phase.SURPLUS if waited >= _body_seconds(connection, seen):
                connection.close()
            case Phase.SILENT if waited >= HEAD_SECONDS:
                connection.close()
            case Phase.IDLE if waited >= IDLE_SECONDS:
                connection.close()
            case Phase.STALLED if (unsent := connection.unsent()) != seen.progress:
                connection.seen = Seen(phase, request, unsent, now)
            case Phase.STALLED if waited >= STALL_SECONDS:
                self.count("slow")
                connection.cut()
            case Phase.REFUSED if waited >= LINGER_SECONDS:
                connection.cut()

    def _make_room(self, newest: Open) -> bool:
        if self._is_packed:
            return False
        now = self._clock.monotonic()
        ranked = [
            (rank, number, each)
            for number, each in enumerate(self._open)
            if each is not newest and (rank := _rank(each, now)) is not None
        ]
        ranked.sort(key=lambda each: each[:2])
        wanted = max(1, self.most // ROOM_SHARE)
        self._is_packed = len(ranked) < wanted
        for _, _, each in ranked[:wanted]:
            self.discard(each)
            if each.phase() is Phase.QUEUED:
                self._refuse_full(each)
            else:
                self.count(ROOM)
                each.cut()
        return len(self._open) <= self.most

    def _refuse_full(self, connection: Open) -> None:
        connection.refuse(FULL)
        # It is above the limit, so it is not kept open until the client has read the answer.
        connection.close()

    def _warn(self) -> None:
        closed = dict(self._closed)
        self._closed.clear()
        facts = {"closed": closed, "open": len(self._open), "most": self.most}
        listed = ", ".join(f"{count} {kind}" for kind, count in closed.items())
        logger.warning(
            f"HTTP connections closed: {listed}; {facts['open']} of at most {self.most} are open"
            f"{_advice(closed)}",
            extra={"event": "ConnectionsClosed", "facts": facts},
        )


def _body_seconds(connection: Open, seen: Seen) -> float:
    rate = BODY_RATE if connection.body_bytes <= LARGE_BODY else LARGE_BODY_RATE
    return BODY_SECONDS + (connection.received - seen.progress) / rate


def _rank(connection: Open, now: float) -> int | None:
    """The order in which connections are closed to make room; None for never."""
    phase, seen = connection.phase(), connection.seen
    match phase:
        case Phase.REFUSED:
            return 0
        case Phase.SILENT | Phase.HEAD:
            is_known = seen is not None and seen.is_still(phase, connection.request())
            return 1 if is_known and seen and now - seen.at >= YOUNG_SECONDS else 4
        case Phase.IDLE | Phase.SURPLUS:
            return 2
        case Phase.BODY | Phase.STALLED:
            return 3
        case Phase.QUEUED:
            return 4
        case Phase.ANSWERING:
            return None


def _advice(closed: dict[str, int]) -> str:
    if closed.keys().isdisjoint((ROOM, FULL.kind)):
        return ""
    return "; if these are real clients, raise http_connections and the limit of open files"
