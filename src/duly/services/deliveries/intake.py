"""Checks new deliveries and their targets, and prepares them to be stored."""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import msgspec

from duly.domain import checks
from duly.domain.batches import checked_batch
from duly.domain.deliveries import payloads
from duly.domain.deliveries.delivery import PreparedDelivery
from duly.domain.deliveries.retry import encode_checked
from duly.domain.deliveries.unique import checked_unique, made_unique
from duly.domain.endpoints.endpoint import endpoint_name, no_endpoint
from duly.domain.endpoints.sealed_addresses import SealedAddresses
from duly.domain.endpoints.webhooks import encode_webhook, is_webhook
from duly.domain.streams.policy import checked_own_stream, checked_policy
from duly.domain.turns import checked_turn
from duly.errors import DulyError, InvalidInput, NotFound
from duly.ports import Chance, Clock, Store
from duly.records.delivery import DEFAULT_PRIORITY
from duly.records.retry_plan import RetryPlan
from duly.records.stream import OnFailure
from duly.records.target import EndpointTarget, HandlerTarget, Target, Webhook
from duly.records.unique import OnDuplicate, Unique
from duly.services.deliveries.limits import LimitKeys, no_key_limits

BULK_CHUNK = 2000
BULK_BYTES = 262_144
"""Bytes of payloads in a chunk, which is written with one statement."""
AT_ONCE = 100
"""Items that are checked before other tasks may run."""
SURE_SECONDS = 1.0
Item = tuple[Target, Any] | Mapping[str, Any]
"""A delivery in the arguments of `deliver_many`."""
Given = TypeVar("Given")
Prepared = TypeVar("Prepared", bound=PreparedDelivery | DulyError)


class Intake:
    """Checks all that is delivered in one namespace."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        handlers: Callable[[], Sequence[str]],
        check: Callable[[Webhook], None],
        addresses: SealedAddresses,
        payload_limit: int,
    ) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._handlers = handlers
        self._check = check
        self._addresses = addresses
        self._payload_limit = payload_limit
        self._limit_keys = LimitKeys(store, clock)
        self._elsewhere: set[str] = set()
        self._seen: dict[str, float] = {}

    def expect(self, names: Iterable[str | HandlerTarget]) -> None:
        """Accept deliveries for these handlers, which are in another process."""
        self._elsewhere.update(checks.checked_handler("handler", name) for name in names)

    def addressed(self, target: Target) -> tuple[str, str | None]:
        """A target's name, and the encoded address of a webhook."""
        if isinstance(target, Webhook):
            self._check(target)
            return target.origin, encode_webhook(target)
        if isinstance(target, EndpointTarget):
            return target.target, None
        return checks.checked_handler("target", target), None

    def request(
        self,
        target: Target,
        payload: Any = None,
        id: str | None = None,
        *,
        at: datetime | None = None,
        after: float | timedelta | None = None,
        key: str | None = None,
        priority: int = DEFAULT_PRIORITY,
        expires_at: datetime | None = None,
        tags: Iterable[str] = (),
        retry: RetryPlan | None = None,
        stream: str | None = None,
        on_failure: OnFailure | str | None = None,
        fair_key: str | None = None,
        limit_key: str | None = None,
        batch: str | None = None,
        unique: Unique | str | None = None,
        on_duplicate: OnDuplicate | str | None = None,
        latest: float | timedelta | None = None,
    ) -> PreparedDelivery:
        """One delivery, checked field by field; a repetition with the same `id` is stored once."""
        if at is not None and after is not None:
            raise InvalidInput("at", "give either at or after, not both")
        name, address = self.addressed(target)
        keys = {"stream": stream, "batch": batch, "fair_key": fair_key, "limit_key": limit_key}
        options = checked_unique(unique, key, on_duplicate, latest, **keys)
        prepared = PreparedDelivery(
            self._chance.delivery_id() if id is None else checks.checked_id(id),
            name,
            payloads.payload_bytes(payload, self._payload_limit),
            None if at is None else checks.checked_moment("at", at),
            None if after is None else checks.checked_wait("after", after),
            None if key is None else checks.checked_text("key", key),
            checks.checked_priority(priority),
            None if expires_at is None else checks.checked_moment("expires_at", expires_at),
            checks.checked_tags(tags) if tags else (),
            None if retry is None else encode_checked(retry),
            self._addresses.sealed(address),
            None if stream is None else checked_own_stream(stream),
            None if on_failure is None else _policy(stream, on_failure),
            batch=None if batch is None else checked_batch(batch),
            turn=checked_turn(fair_key, limit_key, stream),
            again=id is not None,
        )
        return prepared if options is None else made_unique(prepared, options, self._clock.now())

    async def chunks(
        self, items: Iterable[Item], batch: str | None = None
    ) -> AsyncIterator[Sequence[PreparedDelivery]]:
        """Many deliveries in chunks for one transaction, as members of the batch if it is given.

        In that transaction the store also adds new targets: they cannot be added from here, since
        SQLite has one writer.
        """
        prepare = self._item
        if batch is not None:
            prepare = partial(self._item, batch=checked_batch(batch))
        async for chunk in self._chunked(items, prepare):
            await self.check({each.target for each in chunk})
            await self.check_limits(chunk)
            yield chunk

    async def each(
        self, items: Iterable[Item | DulyError]
    ) -> AsyncIterator[list[PreparedDelivery | DulyError]]:
        """Many deliveries in chunks, each checked independently: an error stays in its place."""
        async for chunk in self._chunked(items, self._item_or_error):
            yield await self._with_unknown_targets(chunk)

    async def _chunked(
        self, items: Iterable[Given], prepare: Callable[[Given], Prepared]
    ) -> AsyncIterator[list[Prepared]]:
        """The prepared items in chunks of bounded size; other tasks may run in between."""
        chunk: list[Prepared] = []
        size = 0
        for item in items:
            chunk.append(new := prepare(item))
            size += len(new.payload) if isinstance(new, PreparedDelivery) else 0
            if len(chunk) >= BULK_CHUNK or size >= BULK_BYTES:
                yield chunk
                chunk, size = [], 0
            elif not len(chunk) % AT_ONCE:
                await self._clock.sleep(0)
        if chunk:
            yield chunk

    async def _with_unknown_targets(
        self, chunk: list[PreparedDelivery | DulyError]
    ) -> list[PreparedDelivery | DulyError]:
        """The same, with an error instead of each delivery whose target does not exist."""
        prepared = [each for each in chunk if isinstance(each, PreparedDelivery)]
        wrong: dict[str, DulyError] = {}
        for target in {each.target for each in prepared}:
            try:
                await self.know([target])
            except InvalidInput as error:
                wrong[target] = error
            except NotFound as error:
                wrong[target] = InvalidInput("target", str(error))
        limited = {each.target for each in prepared if each.is_limited} - wrong.keys()
        unlimited = await self._limit_keys.unlimited(limited)
        if not wrong and not unlimited:
            return chunk
        return [_or_error(each, wrong, unlimited) for each in chunk]

    def _item_or_error(self, item: Item | DulyError) -> PreparedDelivery | DulyError:
        if isinstance(item, DulyError):
            return item
        try:
            return self._item(item)
        except InvalidInput as error:
            return error

    def _item(self, item: Item, batch: str | None = None) -> PreparedDelivery:
        if isinstance(item, tuple) and len(item) == 2:
            target, payload = item
            name, address = self.addressed(target)
            return PreparedDelivery(
                self._chance.delivery_id(),
                name,
                payloads.payload_bytes(payload, self._payload_limit),
                address=self._addresses.sealed(address),
                batch=batch,
            )
        try:
            prepared = self.request(**item)
        except TypeError as error:
            raise InvalidInput(
                "items", f"{error}; give (target, payload), or deliver's arguments as a mapping"
            ) from error
        return prepared if batch is None else _member(prepared, batch)

    async def know_handlers(self) -> None:
        """Give every handler that is known here a number in the store."""
        await self.know(self._expected())

    def expects(self, target: str) -> bool:
        """Whether a handler is known here, in the store or not."""
        return target in self._expected()

    def _expected(self) -> set[str]:
        return self._elsewhere.union(self._handlers())

    async def know(self, targets: Collection[str]) -> None:
        """Give each target a number in the store; InvalidInput or NotFound if one is unknown."""
        missing = await self.check(targets)
        if missing:
            await self._store.targets.numbers(missing, create=True)

    def is_sure(self, target: Target) -> bool:
        """Whether the store need not be asked for the target before a delivery is stored."""
        name, _ = self.addressed(target)
        return endpoint_name(name) is None and self._store.targets.is_known(name)

    async def check(self, targets: Collection[str]) -> set[str]:
        """Return the targets without a number in the store; an error if one is unknown."""
        numbers = await self._store.targets.numbers(targets, create=False)
        missing = set(targets) - numbers.keys()
        await self._check_endpoints(targets)
        here = self._expected()
        here.update(filter(is_webhook, missing))
        if unknown := sorted(missing - here):
            await self._refuse(unknown[0], here)
        return missing

    async def check_limits(self, requests: Iterable[PreparedDelivery]) -> None:
        """InvalidInput if one has a limit key, but its target has no limits for each key."""
        await self._limit_keys.check_limits({each.target for each in requests if each.is_limited})

    async def _check_endpoints(self, targets: Collection[str]) -> None:
        """NotFound if an endpoint does not exist; the result is cached for SURE_SECONDS."""
        now = self._clock.monotonic()
        names = [name for each in targets if (name := endpoint_name(each)) is not None]
        unsure = [
            name for name in names if now - self._seen.get(name, -SURE_SECONDS) >= SURE_SECONDS
        ]
        if not unsure:
            return
        found = {each.name for each in await self._store.endpoints.some(unsure)}
        for name in unsure:
            if name not in found:
                raise no_endpoint(name)
            self._seen[name] = now

    async def _refuse(self, unknown: str, here: set[str]) -> None:
        known = here.union((await self._store.targets.refresh()).values())
        raise checks.unknown_handler(unknown, known)


def _policy(stream: str | None, on_failure: object) -> OnFailure:
    if stream is None:
        raise InvalidInput("on_failure", "only a delivery in a stream has one; give a stream too")
    return checked_policy(on_failure)


def _or_error(
    item: PreparedDelivery | DulyError, wrong: Mapping[str, DulyError], unlimited: Collection[str]
) -> PreparedDelivery | DulyError:
    if isinstance(item, PreparedDelivery):
        if item.target in wrong:
            return wrong[item.target]
        if item.is_limited and item.target in unlimited:
            return no_key_limits(item.target)
    return item


def _member(prepared: PreparedDelivery, batch: str) -> PreparedDelivery:
    if prepared.unique_key is not None:
        raise InvalidInput("unique", "it does not go with batch; leave out one of them")
    if prepared.batch not in (None, batch):
        raise InvalidInput("batch", f"an item is for batch {prepared.batch}, and not for {batch}")
    return msgspec.structs.replace(prepared, batch=batch)
