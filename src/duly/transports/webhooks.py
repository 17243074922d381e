"""Sending webhooks: signed, guarded, within one deadline, and never trusting what comes back."""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import aiohttp
import msgspec
from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from yarl import URL

import duly.failpoints as failpoints
from duly.domain import retry
from duly.domain.errors import InvalidInput
from duly.domain.failures import Reason
from duly.domain.outcomes import Deferred, Failed, Outcome
from duly.domain.retry import RetryPlan
from duly.domain.schedule import decode_occasion
from duly.domain.signatures import ID, SIGNATURE, TIMESTAMP, signatures
from duly.domain.webhooks import Webhook, decode_webhook, is_webhook, outcome_of
from duly.ports import Clock, Execution
from duly.transports.egress import AddressRefused, Guard, literal_address
from duly.transports.timing import TIMED, Timing, tracing
from duly.version import __version__

EXCERPT_BYTES = 16 * 1024
OUR_FAULT_SECONDS = 10.0
OUR_FAULTS = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL, errno.EMFILE})
"""Nothing left the machine: the endpoint is not to blame."""
OpenSocket = Callable[[int, int, int], Any]
HOST: ContextVar[str | None] = ContextVar("host", default=None)


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an attempt's record keeps of an exchange; times in milliseconds."""

    status: int | None = None
    timing: dict[str, float] = {}
    excerpt: str = ""
    truncated: bool = False


class Webhooks:
    """The one HTTP client of a process."""

    def __init__(
        self, clock: Clock, guard: Guard, open_socket: OpenSocket, keys: Sequence[bytes] = ()
    ) -> None:
        self._clock = clock
        self._guard = guard
        self._open_socket = open_socket
        self._keys = list(keys)
        self._session: ClientSession | None = None

    def serves(self) -> Sequence[str]:
        """None by name: whatever origin there is, it is reached."""
        return ()

    def reaches(self, target: str) -> bool:
        """Whether the target is an origin."""
        return is_webhook(target)

    def plan(self, target: str) -> RetryPlan:  # noqa: ARG002 - one plan for all origins
        """The `webhook` preset: at once, then after 30 s, 2 min and 10 min."""
        return retry.WEBHOOK

    def check(self, webhook: Webhook) -> None:
        """Refuse early what the guard would refuse later, as far as a URL shows it."""
        host = URL(webhook.url, encoded=True).host or ""
        address = literal_address(host)
        if address is not None:
            try:
                self._guard.check(address, host)
            except AddressRefused as error:
                raise InvalidInput("url", str(error)) from None

    async def attempt(self, execution: Execution) -> Outcome:
        """Send the delivery's bytes and read what came of it."""
        assert execution.claimed.address is not None
        webhook = decode_webhook(execution.claimed.address)
        HOST.set(URL(webhook.url, encoded=True).host)
        timing = Timing(self._clock.monotonic)
        TIMED.set(timing)
        try:
            async with asyncio.timeout(webhook.timeout):
                return await self._exchange(execution, webhook, timing)
        except TimeoutError:
            problem = f"no whole answer within {webhook.timeout:g} seconds"
            return self._failed(Reason.TIMEOUT_EXCEEDED, problem, timing)
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            return self._outcome_of(error, timing)

    async def _exchange(self, execution: Execution, webhook: Webhook, timing: Timing) -> Outcome:
        if failpoints.armed:
            await failpoints.hit("webhook.before")
        body = execution.claimed.payload
        sending = self._opened().request(
            webhook.method,
            URL(webhook.url, encoded=True),
            data=body,
            headers=self._headers(execution, webhook, body),
            allow_redirects=False,
        )
        async with sending as response:
            if failpoints.armed:
                await failpoints.hit("webhook.sent")
            timing.mark("first_byte")
            excerpt, truncated = await _excerpt(response)
            if truncated:
                response.close()
        if failpoints.armed:
            await failpoints.hit("webhook.answered")
        text = excerpt.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
        answer = _told(Answer(response.status, timing.milliseconds(), text, truncated))
        retry_after = response.headers.get("Retry-After")
        return outcome_of(response.status, retry_after, self._clock.now(), answer)

    def _headers(self, execution: Execution, webhook: Webhook, body: bytes) -> dict[str, str]:
        claimed, timestamp = execution.claimed, int(self._clock.now().timestamp())
        ours = {
            "content-type": "application/json",
            "user-agent": f"duly/{__version__}",
            "accept-encoding": "identity",
            **webhook.headers,
            ID: claimed.id,
            TIMESTAMP: str(timestamp),
            "Idempotency-Key": claimed.id,
            "X-Idempotency-Key": claimed.id,
            "webhook-attempt": str(claimed.attempt + 1),
        }
        if self._keys:
            ours[SIGNATURE] = signatures(self._keys, claimed.id, timestamp, body)
        if claimed.occasion is not None:
            occasion = decode_occasion(claimed.occasion)
            ours["webhook-scheduled-for"] = occasion.scheduled_for.isoformat()
            ours["webhook-merged"] = str(occasion.merged)
        return ours

    def _opened(self) -> ClientSession:
        if self._session is None:
            connector = TCPConnector(limit=0, socket_factory=self._guarded_socket)
            self._session = ClientSession(
                connector=connector,
                cookie_jar=DummyCookieJar(),
                # The deadline is ours; the client's own rounds it up to whole seconds.
                timeout=ClientTimeout(total=None, sock_connect=None),
                auto_decompress=False,
                trace_configs=[tracing()],
            )
        return self._session

    def _guarded_socket(self, address_info: Any) -> Any:
        # Here the address is the one that is connected to: no name can lead elsewhere afterwards.
        family, kind, protocol, _, address = address_info
        self._guard.check(address[0], HOST.get())
        return self._open_socket(family, kind, protocol)

    def _outcome_of(self, error: Exception, timing: Timing) -> Outcome:
        if (refused := _cause(error, AddressRefused)) is not None:
            return Failed(Reason.VALIDATION_FAILURE, str(refused), again=False)
        system = _cause(error, OSError)
        if isinstance(system, OSError) and system.errno in OUR_FAULTS:
            return Deferred(OUR_FAULT_SECONDS)
        problem = f"{type(error).__name__}: {error}"
        return self._failed(Reason.TRANSPORT_UNAVAILABLE, problem, timing)

    def _failed(self, reason: Reason, problem: str, timing: Timing) -> Failed:
        return Failed(reason, problem, answer=_told(Answer(timing=timing.milliseconds())))

    async def close(self) -> None:
        """Let go of the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


async def _excerpt(response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
    """The beginning of the body, and whether there was more."""
    found = bytearray()
    while len(found) <= EXCERPT_BYTES:
        part = await response.content.read(EXCERPT_BYTES + 1 - len(found))
        if not part:
            return bytes(found), False
        found += part
    return bytes(found[:EXCERPT_BYTES]), True


def _told(answer: Answer) -> str:
    return msgspec.json.encode(answer).decode()


def _cause(error: BaseException | None, kind: type[Exception]) -> Exception | None:
    """The first of that kind among an error and what led to it."""
    while error is not None:
        if isinstance(error, kind) and not isinstance(error, aiohttp.ClientError):
            return error
        error = getattr(error, "os_error", None) or error.__cause__ or error.__context__
    return None
