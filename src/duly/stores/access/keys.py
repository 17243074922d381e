"""Stored API keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from duly.domain.access.keys import StoredKey, no_key
from duly.records.key import Scope
from duly.stores.access.audit import note
from duly.stores.database import Database, Session


class Keys:
    """The keys of one namespace; authentication looks in all namespaces."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def create(self, key: StoredKey, hash: bytes, actor: str) -> StoredKey:
        """Store a new key of this namespace, with its audit entry."""
        async with self._database.together() as session:
            await self._create(session, key, hash, actor)
        return await self.get(key.id)

    async def create_first(self, key: StoredKey, hash: bytes, actor: str) -> bool:
        """As `create`, if no namespace has any key; of concurrent calls only one succeeds."""
        if (await self._database.fetch_named("keys.any"))[0]["found"]:
            return False
        async with self._database.together() as session:
            await session.fetch("keys.lock")
            if (await session.fetch("keys.any"))[0][0]:
                return False
            await self._create(session, key, hash, actor)
        return True

    async def _create(self, session: Session, key: StoredKey, hash: bytes, actor: str) -> None:
        detail = {"name": key.name, "scope": key.scope, "expires_at": key.expires_at}
        await session.fetch(
            "keys.create",
            "any",
            namespace=self._namespace,
            id=key.id,
            name=key.name,
            scope=key.scope.value,
            hash=hash,
            expires_at=key.expires_at,
        )
        await note(session, self._namespace, actor, "key.created", key.id, detail)

    async def get(self, id: str) -> StoredKey:
        """One key, or NotFound."""
        rows = await self._database.fetch_named("keys.get", namespace=self._namespace, id=id)
        if not rows:
            raise no_key(id)
        return _key(rows[0])

    async def page(self, after: str, limit: int) -> list[StoredKey]:
        """Keys by id, including revoked and expired ones."""
        rows = await self._database.fetch_named(
            "keys.page", namespace=self._namespace, after=after, limit=limit
        )
        return [_key(row) for row in rows]

    async def revoke(self, id: str, actor: str) -> StoredKey:
        """Revoke a key, with an audit entry; revoking it again changes nothing."""
        async with self._database.together() as session:
            if await session.fetch("keys.revoke", "any", namespace=self._namespace, id=id):
                await note(session, self._namespace, actor, "key.revoked", id)
        return await self.get(id)

    async def find(self, id: str) -> tuple[StoredKey, bytes] | None:
        """A key of any namespace, with the hash of its token."""
        rows = await self._database.fetch_named("keys.find", id=id)
        return (_key(rows[0]), bytes(rows[0]["hash"])) if rows else None

    async def start_session(self, key: StoredKey, id: str, hash: bytes, until: datetime) -> None:
        """Store a session with the rights of a key; expired sessions are deleted."""
        async with self._database.together() as session:
            await session.fetch("sessions.prune", "any")
            await session.fetch(
                "sessions.start", "any", id=id, key=key.id, hash=hash, expires_at=until
            )
            await note(session, key.namespace, key.actor, "session.started", id)

    async def find_session(self, id: str) -> tuple[StoredKey, bytes] | None:
        """The key of a session, which expires when one of both does, and the token's hash."""
        rows = await self._database.fetch_named("sessions.find", id=id)
        return (_key(rows[0]), bytes(rows[0]["hash"])) if rows else None

    async def end_session(self, id: str) -> None:
        """Delete a session; safe to repeat."""
        await self._database.fetch("sessions.end", "any", id=id)

    async def touch(self, id: str, before: datetime) -> None:
        """Record that the key is in use, unless that was recorded after `before`."""
        await self._database.fetch("keys.touch", "any", id=id, before=before)

    async def spend(self, id: str, uses: int, rate: float, most: float) -> float:
        """Take uses from the key's rate limit bucket; returns what is left."""
        parameters = {"uses": float(uses), "rate": rate, "most": most}
        rows = await self._database.fetch("keys.spend", "any", id=id, **parameters)
        return float(rows[0][0]) if rows else most

    async def any_active(self) -> bool:
        """Whether any namespace has a key that is neither revoked nor expired."""
        rows = await self._database.fetch_named("keys.any_active")
        return bool(rows[0]["found"])


def _key(row: Mapping[str, Any]) -> StoredKey:
    columns = {name: row[name] for name in StoredKey.__struct_fields__}
    return StoredKey(**columns | {"scope": Scope(row["scope"])})
