"""Endpoints as people handle them: added, edited, paused, resumed, rotated, recovered, removed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, Unpack

import msgspec

from duly.domain import checks
from duly.domain.deliveries import payloads, retry
from duly.domain.deliveries.outcomes import Outcome
from duly.domain.endpoints import endpoint as endpoint_rules
from duly.domain.endpoints import gates
from duly.domain.endpoints.endpoint import (
    LONGEST_OVERLAP,
    OVERLAP,
    Details,
    EndpointChanges,
    EndpointOptions,
    Sealed,
    StoredEndpoint,
)
from duly.domain.endpoints.sealed_headers import (
    key_ids,
    opened_headers,
    readable_headers,
    sealed_headers,
)
from duly.domain.endpoints.signatures import new_secret, secret_key
from duly.errors import Conflict, DulyError, InvalidInput, Outdated
from duly.ports import Chance, Clock, EndpointBacklog, Store
from duly.records.dead_letter import BulkProgress, DeadLetterFilter
from duly.records.endpoint import EndpointState
from duly.records.retry_plan import RetryPlan
from duly.records.target import Webhook

SECRET_BYTES = 32
BATCH = 1000
LONGEST_TEST = 262_144
Decide = Callable[[StoredEndpoint, datetime], StoredEndpoint]


class Vault(Protocol):
    """What seals secrets before they are stored."""

    @property
    def seals(self) -> str | None: ...
    def seal(self, secret: str, context: str, until: datetime | None = None) -> Sealed: ...
    def open(self, sealed: Sealed, context: str) -> str: ...


class DeadLetters(Protocol):
    """What tries dead letters again."""

    async def count(self, filter: DeadLetterFilter) -> int: ...
    def retry_all(
        self, filter: DeadLetterFilter, *, rate: float | None
    ) -> AsyncIterator[BulkProgress]: ...


class Added(msgspec.Struct, frozen=True):
    """An endpoint with its new secret, which is told once and never again."""

    endpoint: StoredEndpoint
    secret: str

    def __repr__(self) -> str:
        # Whoever prints it, as in a log, does not mean to tell the secret.
        return f"Added({self.endpoint.name!r})"


class Standing(msgspec.Struct, frozen=True):
    """An endpoint at one moment, with what is on the books for it."""

    endpoint: StoredEndpoint
    now: datetime
    waiting: EndpointBacklog
    plan: RetryPlan = retry.WEBHOOK
    """How its deliveries are tried again, unless one has a plan of its own."""
    problem: str | None = None
    """Why its secrets cannot be read with the keys that are configured here."""


class Endpoints:
    """The endpoints of one app; `actor` is who the audit trail says it was."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        vault: Vault,
        dead_letters: DeadLetters,
        check: Callable[[Webhook], None],
        try_out: Callable[[StoredEndpoint, str, bytes], Awaitable[Outcome]],
        default_plan: RetryPlan = retry.WEBHOOK,
        actor: str = "python",
    ) -> None:
        self._store = store
        self._clock = clock
        self._vault = vault
        self._chance = chance
        self._dead_letters = dead_letters
        self._check = check
        self._try_out = try_out
        self._default_plan = default_plan
        self.actor = actor

    async def add(
        self,
        name: str,
        url: str,
        *,
        secret: str | None = None,
        **details: Unpack[EndpointOptions],
    ) -> Added:
        """Create one; without a secret it gets one. Conflict when the name is taken."""
        name = checks.checked_name("name", name)
        checked = endpoint_rules.details({"url": url, **details})
        self._check(checked.webhook)
        secret = self._checked_secret(secret)

        def decide(before: StoredEndpoint | None, now: datetime) -> StoredEndpoint:
            if before is not None:
                raise Conflict(f"endpoint {name!r} exists already; edit it, or take another name")
            return StoredEndpoint(
                name=name,
                target=0,
                details=self._sealed(checked, name),
                state_at=now,
                created_at=now,
                version=1,
                secrets=(self._vault.seal(secret, name),),
            )

        endpoint = await self._store.endpoints.revise(name, decide, self.actor, "added")
        return Added(self._readable(endpoint), secret)

    def _sealed(self, given: Details, name: str) -> Details:
        headers = sealed_headers(given.headers, name, self._vault.seal)
        return msgspec.structs.replace(given, headers=headers)

    def _readable(self, found: StoredEndpoint) -> StoredEndpoint:
        """As people see it: with its headers opened, as far as the keys are here."""
        headers = readable_headers(found.details.headers, found.name, self._vault.open)
        details = msgspec.structs.replace(found.details, headers=headers)
        return msgspec.structs.replace(found, details=details)

    def _checked_secret(self, secret: str | None) -> str:
        if secret is None:
            return new_secret(self._chance.bytes(SECRET_BYTES))
        return new_secret(secret_key(secret))

    async def get(self, name: str) -> StoredEndpoint:
        """One endpoint, or NotFound."""
        return self._readable(await self._stored(name))

    async def _stored(self, name: str) -> StoredEndpoint:
        return await self._store.endpoints.get(checks.checked_text("name", name))

    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[StoredEndpoint]:
        """Endpoints by name; `after` is the last name of the page before."""
        start = checks.checked_start("after", after)
        found = await self._store.endpoints.page(start, checks.checked_limit(limit))
        return [self._readable(each) for each in found]

    async def waiting(self, name: str) -> EndpointBacklog:
        """What is on the books for it."""
        return await self._store.endpoints.waiting((await self.get(name)).target)

    async def standing(self, endpoint: StoredEndpoint) -> Standing:
        """How it stands now."""
        waiting = await self._store.endpoints.waiting(endpoint.target)
        stored = endpoint.details.retry
        plan = self._default_plan if stored is None else retry.decode(stored)
        return Standing(endpoint, self._clock.now(), waiting, plan, self.problem(endpoint))

    async def edit(
        self,
        name: str,
        *,
        version: int | None = None,
        header_changes: Mapping[str, str | None] | None = None,
        **details: Unpack[EndpointChanges],
    ) -> StoredEndpoint:
        """Change what is given; deliveries that wait go by it from their next attempt on.

        Of its headers `header_changes` adds or changes some, or with None leaves them out, whatever
        their case. Outdated when it is no longer at the `version` that is given.
        """
        if header_changes and "headers" in details:
            raise InvalidInput("header_changes", "give them or headers, not both")

        def decide(before: StoredEndpoint, now: datetime) -> StoredEndpoint:  # noqa: ARG001
            _check_version(before, version)
            changed = endpoint_rules.details(details, before.details)
            if header_changes:
                headers = endpoint_rules.changed_headers(before.details.headers, header_changes)
                changed = msgspec.structs.replace(changed, headers=headers)
            if "url" in details:
                self._check(changed.webhook)
            return msgspec.structs.replace(before, details=self._sealed(changed, name))

        names = sorted({*details, *(["headers"] if header_changes else [])})
        return await self._revised(name, decide, "edited", changed=names)

    async def pause(
        self, name: str, reason: str | None = None, *, version: int | None = None
    ) -> StoredEndpoint:
        """Let its deliveries wait until it is resumed; what is under way goes on.

        Outdated when it is no longer at the `version` that is given.
        """
        reason = None if reason is None else checks.checked_text("reason", reason, 1000)

        def decide(before: StoredEndpoint, now: datetime) -> StoredEndpoint:
            _check_version(before, version)
            if (before.state, before.state_reason) == (EndpointState.PAUSED, reason):
                return before
            return msgspec.structs.replace(
                before, state=EndpointState.PAUSED, state_reason=reason, state_at=now
            )

        return await self._revised(name, decide, "paused", reason=reason)

    async def resume(self, name: str) -> StoredEndpoint:
        """Let its deliveries go, whether it was paused, disabled or only failed too often."""

        def decide(before: StoredEndpoint, now: datetime) -> StoredEndpoint:
            gate = gates.succeeded(before.gate)
            if before.state is EndpointState.ACTIVE:
                return msgspec.structs.replace(before, gate=gate)
            return msgspec.structs.replace(
                before, state=EndpointState.ACTIVE, state_reason=None, state_at=now, gate=gate
            )

        endpoint = await self._revised(name, decide, "resumed")
        self._store.wakeups.hint()
        return endpoint

    async def rotate(
        self, name: str, *, secret: str | None = None, overlap: timedelta = OVERLAP
    ) -> Added:
        """Give it a new secret; it signs with the old one too for `overlap` more."""
        if not timedelta() <= overlap <= LONGEST_OVERLAP:
            raise InvalidInput("overlap", f"give a time up to {LONGEST_OVERLAP.days} days")
        secret = self._checked_secret(secret)

        def decide(before: StoredEndpoint, now: datetime) -> StoredEndpoint:
            new = self._vault.seal(secret, name)
            return msgspec.structs.replace(
                before, secrets=endpoint_rules.rotated(before.secrets, new, now, overlap)
            )

        return Added(await self._revised(name, decide, "rotated"), secret)

    async def reseal(self, name: str) -> bool:
        """Seal its secrets and headers with the first key of DULY_SECRET_KEY; whether it had to."""
        if key_ids(await self._stored(name)) <= {self._vault.seals}:
            return False

        def decide(before: StoredEndpoint, now: datetime) -> StoredEndpoint:
            # One that is no longer used may have outlived its key.
            used = endpoint_rules.still_used(before.secrets, now)
            opened = [(self._vault.open(each, name), each.until) for each in used]
            sealed = tuple(self._vault.seal(secret, name, until) for secret, until in opened)
            headers = opened_headers(before.details.headers, name, self._vault.open)
            plain = msgspec.structs.replace(before.details, headers=headers)
            details = self._sealed(plain, name)
            return msgspec.structs.replace(before, secrets=sealed, details=details)

        await self._revised(name, decide, "resealed")
        return True

    def problem(self, endpoint: StoredEndpoint) -> str | None:
        """Why its secrets or headers cannot be read with the keys configured here, if so."""
        try:
            opened_headers(endpoint.details.headers, endpoint.name, self._vault.open)
            for each in endpoint_rules.still_used(endpoint.secrets, self._clock.now()):
                self._vault.open(each, endpoint.name)
        except DulyError as error:
            return str(error)
        return None

    async def test(self, name: str, payload: Any = None) -> Outcome:
        """Send something there at once, whatever its state; it leaves no trace on the books."""
        endpoint = await self._stored(name)
        given = {"type": "duly.test", "endpoint": name} if payload is None else payload
        body = payloads.payload_bytes(given, LONGEST_TEST)
        return await self._try_out(endpoint, self._chance.delivery_id(), body)

    async def remove(
        self, name: str, *, cancel_waiting: bool = False, version: int | None = None
    ) -> StoredEndpoint:
        """Remove it; Conflict while deliveries wait for it, unless they are to be cancelled too.

        What is under way then ends first: while a worker holds any, it is a Conflict still.
        Outdated when it is no longer at the `version` that is given.
        """
        endpoint = await self.get(name)
        if cancel_waiting:
            # Asked first: what is cancelled for nothing does not come back.
            await self._store.endpoints.refuse_if_scheduled(endpoint)
            paused = await self.pause(name, "it is being removed", version=version)
            version = None if version is None else paused.version
            while await self._store.endpoints.cancel_waiting(endpoint.target, BATCH):
                pass
        removed = await self._store.endpoints.remove(
            name, self.actor, lambda found: _check_version(found, version)
        )
        return self._readable(removed)

    async def count_dead(self, name: str, since: datetime, until: datetime | None = None) -> int:
        """How many deliveries `recover` would try again."""
        return await self._dead_letters.count(await self._dead(name, since, until))

    async def recover(
        self,
        name: str,
        since: datetime,
        *,
        rate: float | None = None,
        until: datetime | None = None,
    ) -> AsyncIterator[BulkProgress]:
        """Try its dead letters since then again, at most `rate` a second; yields how far it is.

        Interrupted, the rest stay dead letters; the next call goes on with them, and with the
        `until` of its progress it is the same recovery.
        """
        wanted = await self._dead(name, since, until)
        async for progress in self._dead_letters.retry_all(wanted, rate=rate):
            yield progress

    async def _dead(
        self, name: str, since: datetime, until: datetime | None = None
    ) -> DeadLetterFilter:
        await self.get(name)
        return DeadLetterFilter(
            target=endpoint_rules.endpoint(name).target, since=since, until=until
        )

    async def _revised(
        self, name: str, decide: Decide, action: str, **detail: Any
    ) -> StoredEndpoint:
        def known(before: StoredEndpoint | None, now: datetime) -> StoredEndpoint:
            if before is None:
                raise endpoint_rules.no_endpoint(name)
            return decide(before, now)

        await self.get(name)
        store = self._store.endpoints
        return self._readable(await store.revise(name, known, self.actor, action, detail or None))


def _check_version(endpoint: StoredEndpoint, version: int | None) -> None:
    if version is not None and endpoint.version != version:
        raise Outdated("endpoint", endpoint.name, endpoint.version, version)
