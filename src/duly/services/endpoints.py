"""Endpoints: add, change, pause, resume, rotate, test, recover and remove them."""

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
    LONGEST_TEST,
    OVERLAP,
    Details,
    Sealed,
    StoredEndpoint,
)
from duly.domain.endpoints.sealed_headers import (
    key_ids,
    opened_headers,
    readable_headers,
    sealed_headers,
)
from duly.domain.endpoints.shown import endpoint_record, result_of_test
from duly.domain.endpoints.signatures import new_secret, secret_key
from duly.errors import Conflict, DulyError, InvalidInput, Outdated
from duly.ports import Chance, Clock, ResealedAddresses, Store
from duly.records.dead_letter import BulkProgress, DeadLetterFilter
from duly.records.endpoint import (
    Endpoint,
    EndpointChangeKeywords,
    EndpointKeywords,
    EndpointState,
    EndpointTest,
    EndpointWithSecret,
)
from duly.records.retry_plan import RetryPlan
from duly.records.target import Webhook

SECRET_BYTES = 32
BATCH = 1000
Decide = Callable[[StoredEndpoint, datetime], StoredEndpoint]


class Vault(Protocol):
    """Seals secrets before they are stored."""

    @property
    def seals(self) -> str | None: ...
    def seal(self, secret: str, context: str, until: datetime | None = None) -> Sealed: ...
    def open(self, sealed: Sealed, context: str) -> str: ...


class DeadLetters(Protocol):
    """Retries dead letters."""

    async def count(self, filter: DeadLetterFilter) -> int: ...
    def retry_all(
        self, filter: DeadLetterFilter, *, rate: float | None
    ) -> AsyncIterator[BulkProgress]: ...


class Endpoints:
    """The endpoints of one app; the audit trail names `actor`."""

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
        **options: Unpack[EndpointKeywords],
    ) -> EndpointWithSecret:
        """Add an endpoint; without `secret` one is generated. Conflict if the name exists."""
        name = checks.checked_name("name", name)
        checked = endpoint_rules.details({"url": url, **options})
        self._check(checked.webhook)
        secret = self._checked_secret(secret)

        def decide(before: StoredEndpoint | None, now: datetime) -> StoredEndpoint:
            if before is not None:
                raise Conflict(f"endpoint {name!r} exists already; edit it, or use another name")
            return StoredEndpoint(
                name=name,
                target=0,
                details=self._sealed(checked, name),
                state_at=now,
                created_at=now,
                version=1,
                secrets=(self._vault.seal(secret, name),),
            )

        added = await self._store.endpoints.revise(name, decide, self.actor, "added")
        return await self._with_secret(added, secret)

    def _sealed(self, given: Details, name: str) -> Details:
        headers = sealed_headers(given.headers, name, self._vault.seal)
        return msgspec.structs.replace(given, headers=headers)

    def _checked_secret(self, secret: str | None) -> str:
        if secret is None:
            return new_secret(self._chance.bytes(SECRET_BYTES))
        return new_secret(secret_key(secret))

    async def get(self, name: str) -> Endpoint:
        """One endpoint with its whole URL, or NotFound."""
        found = await self._stored(name)
        return msgspec.structs.replace(await self._record(found), url=found.details.url)

    async def _stored(self, name: str) -> StoredEndpoint:
        return await self._store.endpoints.get(checks.checked_text("name", name))

    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[Endpoint]:
        """Endpoints by name; `after` is the last name of the previous page."""
        start = checks.checked_start("after", after)
        return await self._records(
            await self._store.endpoints.page(start, checks.checked_limit(limit))
        )

    async def _record(self, found: StoredEndpoint) -> Endpoint:
        return (await self._records([found]))[0]

    async def _records(self, found: Sequence[StoredEndpoint]) -> Sequence[Endpoint]:
        counts = await self._store.endpoints.waiting([each.target for each in found])
        return [self._shown(each, *counts[each.target]) for each in found]

    def _shown(self, found: StoredEndpoint, waiting: int, under_way: int) -> Endpoint:
        headers = readable_headers(found.details.headers, found.name, self._vault.open)
        stored = found.details.retry
        plan = self._default_plan if stored is None else retry.decode(stored)
        now, problem = self._clock.now(), self.problem(found)
        return endpoint_record(found, headers, plan, problem, (waiting, under_way), now)

    async def _with_secret(self, found: StoredEndpoint, secret: str) -> EndpointWithSecret:
        record = msgspec.structs.asdict(await self._record(found))
        return EndpointWithSecret(**record, secret=secret)

    async def edit(
        self,
        name: str,
        *,
        version: int | None = None,
        header_changes: Mapping[str, str | None] | None = None,
        **options: Unpack[EndpointChangeKeywords],
    ) -> Endpoint:
        """Change the given options; each delivery uses them from its next attempt on.

        `header_changes` adds or changes headers, or removes those with None, regardless of case.
        Outdated if the endpoint is no longer at the given `version`.
        """
        if header_changes and "headers" in options:
            raise InvalidInput("header_changes", "give them or headers, not both")

        def decide(before: StoredEndpoint, now: datetime) -> StoredEndpoint:  # noqa: ARG001
            _check_version(before, version)
            changed = endpoint_rules.details(options, before.details)
            if header_changes:
                headers = endpoint_rules.changed_headers(before.details.headers, header_changes)
                changed = msgspec.structs.replace(changed, headers=headers)
            if "url" in options:
                self._check(changed.webhook)
            return msgspec.structs.replace(before, details=self._sealed(changed, name))

        names = sorted({*options, *(["headers"] if header_changes else [])})
        return await self._record(await self._revised(name, decide, "edited", changed=names))

    async def pause(
        self, name: str, reason: str | None = None, *, version: int | None = None
    ) -> Endpoint:
        """Let its deliveries wait until it is resumed; attempts under way continue.

        Outdated if the endpoint is no longer at the given `version`.
        """
        reason = None if reason is None else checks.checked_text("reason", reason, 1000)

        def decide(before: StoredEndpoint, now: datetime) -> StoredEndpoint:
            _check_version(before, version)
            if (before.state, before.state_reason) == (EndpointState.PAUSED, reason):
                return before
            return msgspec.structs.replace(
                before, state=EndpointState.PAUSED, state_reason=reason, state_at=now
            )

        return await self._record(await self._revised(name, decide, "paused", reason=reason))

    async def resume(self, name: str) -> Endpoint:
        """Send its deliveries again after it was paused or disabled, or its circuit opened."""

        def decide(before: StoredEndpoint, now: datetime) -> StoredEndpoint:
            gate = gates.succeeded(before.gate)
            if before.state is EndpointState.ACTIVE:
                return msgspec.structs.replace(before, gate=gate)
            return msgspec.structs.replace(
                before, state=EndpointState.ACTIVE, state_reason=None, state_at=now, gate=gate
            )

        resumed = await self._revised(name, decide, "resumed")
        self._store.wakeups.hint()
        return await self._record(resumed)

    async def rotate(
        self, name: str, *, secret: str | None = None, overlap: timedelta = OVERLAP
    ) -> EndpointWithSecret:
        """Set a new secret; for `overlap`, requests are signed with the old one too."""
        if not timedelta() <= overlap <= LONGEST_OVERLAP:
            raise InvalidInput("overlap", f"give a time up to {LONGEST_OVERLAP.days} days")
        secret = self._checked_secret(secret)

        def decide(before: StoredEndpoint, now: datetime) -> StoredEndpoint:
            new = self._vault.seal(secret, name)
            return msgspec.structs.replace(
                before, secrets=endpoint_rules.rotated(before.secrets, new, now, overlap)
            )

        return await self._with_secret(await self._revised(name, decide, "rotated"), secret)

    async def reseal(self, name: str) -> bool:
        """Seal its secrets and headers with the first key of DULY_SECRET_KEY.

        Returns False if they were sealed with it already.
        """
        if key_ids(await self._stored(name)) <= {self._vault.seals}:
            return False

        def decide(before: StoredEndpoint, now: datetime) -> StoredEndpoint:
            # The key of a secret that is no longer used may be gone.
            used = endpoint_rules.still_used(before.secrets, now)
            opened = [(self._vault.open(each, name), each.until) for each in used]
            sealed = tuple(self._vault.seal(secret, name, until) for secret, until in opened)
            headers = opened_headers(before.details.headers, name, self._vault.open)
            plain = msgspec.structs.replace(before.details, headers=headers)
            details = self._sealed(plain, name)
            return msgspec.structs.replace(before, secrets=sealed, details=details)

        await self._revised(name, decide, "resealed")
        return True

    async def reseal_addresses(self) -> ResealedAddresses:
        """Seal the headers of schedules and deliveries to plain URLs with the first key."""
        return await self._store.addresses.reseal(self.actor)

    def problem(self, endpoint: StoredEndpoint) -> str | None:
        """Why its secrets or headers cannot be read with the keys configured here, or None."""
        try:
            opened_headers(endpoint.details.headers, endpoint.name, self._vault.open)
            for each in endpoint_rules.still_used(endpoint.secrets, self._clock.now()):
                self._vault.open(each, endpoint.name)
        except DulyError as error:
            return str(error)
        return None

    async def test(self, name: str, payload: Any = None) -> EndpointTest:
        """Send a test request at once, in any state of the endpoint; nothing is stored."""
        endpoint = await self._stored(name)
        given = {"type": "duly.test", "endpoint": name} if payload is None else payload
        body = payloads.payload_bytes(given, LONGEST_TEST)
        outcome = await self._try_out(endpoint, self._chance.delivery_id(), body)
        return result_of_test(endpoint, outcome)

    async def remove(
        self, name: str, *, cancel_waiting: bool = False, version: int | None = None
    ) -> Endpoint:
        """Remove it; Conflict if deliveries wait for it, unless `cancel_waiting` cancels them.

        Also a Conflict while attempts are under way. Outdated if the endpoint is no longer at the
        given `version`.
        """
        endpoint = await self._stored(name)
        if cancel_waiting:
            # Checked first: a cancellation cannot be undone.
            await self._store.endpoints.refuse_if_scheduled(endpoint)
            paused = await self.pause(name, "it is being removed", version=version)
            version = None if version is None else paused.version
            while await self._store.endpoints.cancel_waiting(endpoint.target, BATCH):
                pass
        removed = await self._store.endpoints.remove(
            name, self.actor, lambda found: _check_version(found, version)
        )
        return await self._record(removed)

    async def count_dead(self, name: str, since: datetime, until: datetime | None = None) -> int:
        """The number of dead letters that `recover` would retry."""
        return await self._dead_letters.count(await self._dead(name, since, until))

    async def recover(
        self,
        name: str,
        since: datetime,
        *,
        rate: float | None = None,
        until: datetime | None = None,
    ) -> AsyncIterator[BulkProgress]:
        """Retry its dead letters since a moment, at most `rate` per second; yields the progress.

        If it is interrupted, call it again with the `until` of the progress to continue.
        """
        wanted = await self._dead(name, since, until)
        async for progress in self._dead_letters.retry_all(wanted, rate=rate):
            yield progress

    async def _dead(
        self, name: str, since: datetime, until: datetime | None = None
    ) -> DeadLetterFilter:
        await self._stored(name)
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

        await self._stored(name)
        store = self._store.endpoints
        return await store.revise(name, known, self.actor, action, detail or None)


def _check_version(endpoint: StoredEndpoint, version: int | None) -> None:
    if version is not None and endpoint.version != version:
        raise Outdated("endpoint", endpoint.name, endpoint.version, version)
