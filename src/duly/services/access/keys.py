"""API keys: created, listed, revoked, and checked for each request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from duly.domain import checks
from duly.domain.access import keys, rate_limits
from duly.domain.access.keys import StoredKey
from duly.errors import DulyError, InvalidInput
from duly.ports import Chance, Clock, Store
from duly.records.key import LONGEST_NAME, Key, KeyState, KeyWithToken, Scope

NOTED_EVERY = timedelta(minutes=1)
"""How often `last_used_at` is updated."""
PATIENCE_SECONDS = 0.3
"""How long a request waits for this update."""

BOOTSTRAP = "bootstrap"
"""The name of the first key, and its actor in the audit trail."""


SESSION_FOR = timedelta(hours=12)


class Session(NamedTuple):
    """A browser's session: its key, its token, and when it ends."""

    key: StoredKey
    token: str
    expires_at: datetime


class Keys:
    """The keys of one namespace; `actor` is named in the audit trail."""

    def __init__(self, store: Store, clock: Clock, chance: Chance, actor: str = "python") -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self.actor = actor
        self._noting: dict[str, asyncio.Future[None]] = {}

    async def create(
        self,
        name: str,
        *,
        scope: Scope | str = Scope.READ,
        expires_at: datetime | None = None,
    ) -> KeyWithToken:
        """Create a key for this namespace. Only this result has its token."""
        id, token = keys.new_token(self._chance.bytes(keys.ID_BYTES + keys.SECRET_BYTES))
        now = self._clock.now()
        key = StoredKey(
            id=id,
            namespace=self._store.namespace,
            name=checks.checked_text("name", name, LONGEST_NAME),
            scope=keys.checked_scope(scope),
            created_at=now,
            expires_at=None if expires_at is None else _future(expires_at, now),
        )
        made = await self._store.keys.create(key, keys.digest(token), self.actor)
        return KeyWithToken(**msgspec.structs.asdict(made.record(now)), token=token)

    async def bootstrap(self, token: str) -> Key | None:
        """Create the first key of a store, an admin with this token; None if keys exist already.

        Of several concurrent calls, one creates it.
        """
        id = keys.id_in(token)
        if id is None:
            raise InvalidInput("bootstrap_key", "not a key; `duly keys bootstrap` prints one")
        key = StoredKey(
            id=id,
            namespace=self._store.namespace,
            name=BOOTSTRAP,
            scope=Scope.ADMIN,
            created_at=self._clock.now(),
        )
        made = await self._store.keys.create_first(key, keys.digest(token), BOOTSTRAP)
        return await self.get(id) if made else None

    async def get(self, id: str) -> Key:
        """One key, or NotFound."""
        return self._record(await self._store.keys.get(keys.checked_id(id)))

    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[Key]:
        """Keys by id, also expired or revoked; `after` is the last id of the previous page."""
        start = checks.checked_start("after", after)
        found = await self._store.keys.page(start, checks.checked_limit(limit))
        return [self._record(each) for each in found]

    async def revoke(self, id: str) -> Key:
        """Make a key invalid; safe to repeat. NotFound if it does not exist."""
        return self._record(await self._store.keys.revoke(keys.checked_id(id), self.actor))

    def _record(self, key: StoredKey) -> Key:
        return key.record(self._clock.now())

    async def check(self, token: str) -> StoredKey | None:
        """The active key of a token, of any namespace, or None.

        `last_used_at` is updated, at most once a minute.
        """
        id = keys.id_in(token)
        return None if id is None else await self._checked(token, await self._store.keys.find(id))

    async def start_session(self, token: str) -> Session | None:
        """A session with the rights of a token's key, for a browser; None if it is not valid."""
        key = await self.check(token)
        if key is None:
            return None
        id, own = keys.new_token(self._chance.bytes(keys.ID_BYTES + keys.SECRET_BYTES))
        until = self._clock.now() + SESSION_FOR
        if key.expires_at is not None:
            until = min(until, key.expires_at)
        await self._store.keys.start_session(key, id, keys.digest(own), until)
        return Session(key, own, until)

    async def check_session(self, token: str) -> StoredKey | None:
        """The active key of a session's token, or None."""
        id = keys.id_in(token)
        found = None if id is None else await self._store.keys.find_session(id)
        return await self._checked(token, found)

    async def end_session(self, token: str) -> None:
        """End the session of a token; safe to repeat."""
        if (id := keys.id_in(token)) is not None:
            await self._store.keys.end_session(id)

    async def _checked(self, token: str, found: tuple[StoredKey, bytes] | None) -> StoredKey | None:
        if found is None:
            return None
        key, stored_digest = found
        now = self._clock.now()
        if not keys.is_token_of(token, stored_digest) or key.state(now) is not KeyState.ACTIVE:
            return None
        if key.last_used_at is None or key.last_used_at <= now - NOTED_EVERY:
            await self._note_use(key.id, now - NOTED_EVERY)
        return key

    async def _note_use(self, id: str, before: datetime) -> None:
        """Update `last_used_at`, in the background if that takes long.

        On SQLite a handler may hold the writer for minutes: requests do not wait for that.
        """
        if id not in self._noting:
            self._noting[id] = asyncio.ensure_future(self._touch(id, before))
            await asyncio.wait({self._noting[id]}, timeout=PATIENCE_SECONDS)

    async def _touch(self, id: str, before: datetime) -> None:
        try:
            with suppress(DulyError):
                await self._store.keys.touch(id, before)
        finally:
            del self._noting[id]

    async def spend(self, id: str, uses: int, rate: float) -> float:
        """Take uses from the rate limit that all servers share; returns the new level."""
        return await self._store.keys.spend(id, uses, rate, rate_limits.most_shared(rate))

    async def any_active(self) -> bool:
        """Whether any namespace has an active key."""
        return await self._store.keys.any_active()


def _future(expires_at: datetime, now: datetime) -> datetime:
    checked = checks.checked_moment("expires_at", expires_at)
    if checked <= now:
        raise InvalidInput("expires_at", f"{checked.isoformat()} has passed; give a future time")
    return checked
