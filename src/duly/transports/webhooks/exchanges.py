"""One HTTP exchange with an endpoint: sends the payload and turns the answer into an outcome."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

import duly.failpoints as failpoints
from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.outcomes import Deferred, Failed, Outcome
from duly.domain.endpoints.webhooks import outcome_of
from duly.ports import Clock
from duly.records.reason import Reason
from duly.transports.webhooks.answers import EXCERPT_BYTES, AnswerRefused, Heard
from duly.transports.webhooks.connection import Stale
from duly.transports.webhooks.connections import Connections, OpenSocket
from duly.transports.webhooks.egress import AddressRefused, Guard
from duly.transports.webhooks.endpoint_cache import Reach
from duly.transports.webhooks.requests import Origin, request_of
from duly.transports.webhooks.resolver import LookUp, Resolver, ResolverAway
from duly.transports.webhooks.timeout import Deadlines
from duly.transports.webhooks.timing import ExchangeTiming

OUR_FAULT_SECONDS = 10.0
OUR_FAULTS = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL, errno.EMFILE})
"""Errors of this machine: nothing was sent, so the endpoint is not to blame."""


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of an answer that is stored with the attempt; times in milliseconds."""

    status: int | None = None
    timing: dict[str, float] = {}
    excerpt: str = ""
    truncated: bool = False
    note: str = ""
    """A problem with the body: incomplete, malformed, or not allowed for the status."""


class Exchanges:
    """The one HTTP client of a process."""

    def __init__(
        self,
        clock: Clock,
        guard: Guard,
        look_up: LookUp,
        is_resolver_trouble: Callable[[OSError], bool],
        open_socket: OpenSocket,
        carried: Callable[[], Mapping[str, str]],
    ) -> None:
        self._clock = clock
        self._guard = guard
        self._resolver = Resolver(clock.monotonic, look_up, is_resolver_trouble)
        self._open_socket = open_socket
        self._carried = carried
        self._deadlines: Deadlines | None = None
        self._connections: Connections | None = None
        self.answers: Counter[str] = Counter()
        """Number of answers by class (`2xx`), and of exchanges without one (`none`)."""

    async def make(
        self, claimed: Claimed, reach: Reach, timestamp: int, now: Callable[[], datetime]
    ) -> Outcome:
        """Make one exchange within its timeout.

        `timestamp`, in seconds, is signed; a Retry-After with a date counts from `now`.
        """
        timing = ExchangeTiming(self._clock.monotonic)
        heard, timeout = Heard(timing), reach.webhook.timeout
        try:
            with self._get_deadlines().within(timeout):
                if failpoints.armed:
                    await failpoints.hit("webhook.before")
                request = request_of(
                    reach.prepared, claimed, reach.keys, timestamp, self._carried()
                )
                await self._exchange(reach.prepared.origin, request, heard)
                if failpoints.armed:
                    await failpoints.hit("webhook.answered")
        except TimeoutError:
            if heard.status is None:
                problem = f"no answer within {timeout:g} seconds"
                return self._failed(Reason.TIMEOUT_EXCEEDED, problem, timing)
            heard.odd(f"it did not end within {timeout:g} seconds")
        except (AnswerRefused, OSError, ValueError) as error:
            if heard.status is None:
                return self._outcome_of_error(error, timing)
            heard.odd(_problem(error))
        return self._outcome_of_answer(heard, now)

    def _get_deadlines(self) -> Deadlines:
        """What belongs to the event loop, made when it is first used there."""
        if self._deadlines is None:
            self._deadlines = Deadlines()
            self._connections = Connections(self._guard, self._resolver, self._open_socket)
        return self._deadlines

    async def _exchange(self, origin: Origin, request: bytes, heard: Heard) -> None:
        connections = self._connections
        assert connections is not None
        connection = connections.take(origin)
        if connection is not None:
            try:
                if await connection.exchange(request, heard):
                    connections.keep(origin, connection)
                return
            except Stale:
                heard.timing.skip()  # the peer closed it as we wrote, and has answered nothing
        connection = await connections.open(origin, heard.timing)
        if await connection.exchange(request, heard):
            connections.keep(origin, connection)

    def _outcome_of_answer(self, heard: Heard, now: Callable[[], datetime]) -> Outcome:
        status = heard.status
        assert status is not None
        self.answers[f"{status // 100}xx"] += 1
        excerpt = heard.body[:EXCERPT_BYTES].decode(errors="replace")
        text = excerpt.replace("\0", "\N{REPLACEMENT CHARACTER}")
        answer = Answer(status, heard.timing.milliseconds(), text, heard.truncated, heard.note)
        return outcome_of(status, heard.retry_after, now, _encoded(answer))

    def _outcome_of_error(self, error: Exception, timing: ExchangeTiming) -> Outcome:
        if isinstance(error, AddressRefused):
            return Failed(Reason.VALIDATION_FAILURE, str(error), again=False)
        if isinstance(error, ResolverAway):
            return Deferred(OUR_FAULT_SECONDS)
        if isinstance(error, OSError) and error.errno in OUR_FAULTS:
            return Deferred(OUR_FAULT_SECONDS)
        return self._failed(Reason.TRANSPORT_UNAVAILABLE, _problem(error), timing)

    def _failed(self, reason: Reason, problem: str, timing: ExchangeTiming) -> Failed:
        self.answers["none"] += 1
        return Failed(reason, problem, answer=_encoded(Answer(timing=timing.milliseconds())))

    def close(self) -> None:
        """Close the connections."""
        for each in (self._resolver, self._deadlines, self._connections):
            if each is not None:
                each.close()
        self._deadlines = self._connections = None


def _encoded(answer: Answer) -> str:
    return msgspec.json.encode(answer).decode()


def _problem(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
