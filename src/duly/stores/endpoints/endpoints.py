"""Stored named endpoints.

Nothing is decided here: the caller of a change passes a function that decides, which is called
with the row locked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec

from duly.domain.endpoints.endpoint import Details, Sealed, StoredEndpoint, no_endpoint
from duly.domain.endpoints.gates import Gate
from duly.errors import Conflict
from duly.records.endpoint import EndpointState
from duly.records.target import PREFIX
from duly.stores.access.audit import note
from duly.stores.database import Database, Session
from duly.stores.endpoints.gates import gate_of
from duly.stores.endpoints.limits import key_columns, per_key_of
from duly.stores.endpoints.targets import Targets
from duly.stores.streams.members import Members

COUNTED_UP_TO = 1_000_000
Decide = Callable[[StoredEndpoint | None, datetime], StoredEndpoint]


class Endpoints:
    """The endpoints of one namespace."""

    def __init__(
        self, database: Database, namespace: str, targets: Targets, members: Members
    ) -> None:
        self._database = database
        self._namespace = namespace
        self._targets = targets
        self._members = members

    async def get(self, name: str) -> StoredEndpoint:
        """One endpoint, or NotFound."""
        found = await self._find(self._database, name)
        if found is None:
            raise no_endpoint(name)
        return found

    async def _find(self, session: Session, name: str) -> StoredEndpoint | None:
        rows = await session.fetch_named("endpoints.get", namespace=self._namespace, name=name)
        return endpoint_of(rows[0]) if rows else None

    async def some(self, names: Collection[str]) -> list[StoredEndpoint]:
        """The endpoints with these names; unknown names are left out."""
        rows = await self._database.fetch_named(
            "endpoints.some", namespace=self._namespace, names=list(names)
        )
        return [endpoint_of(row) for row in rows]

    async def page(self, after: str, limit: int) -> list[StoredEndpoint]:
        """Endpoints by name."""
        rows = await self._database.fetch_named(
            "endpoints.page", namespace=self._namespace, after=after, limit=limit
        )
        return [endpoint_of(row) for row in rows]

    async def revise(
        self,
        name: str,
        decide: Decide,
        actor: str,
        action: str,
        detail: Mapping[str, Any] | None = None,
    ) -> StoredEndpoint:
        """Create or change one with `decide`, which is called with its row locked."""
        target = PREFIX + name
        number = (await self._targets.numbers([target], create=True))[target]
        try:
            await self._revise(name, number, decide, actor, action, detail)
        except self._database.refusals:
            # Another caller may have created the name meanwhile: then there is a row to lock.
            await self._revise(name, number, decide, actor, action, detail)
        return await self.get(name)

    async def _revise(
        self,
        name: str,
        number: int,
        decide: Decide,
        actor: str,
        action: str,
        detail: Mapping[str, Any] | None,
    ) -> None:
        async with self._database.together() as session:
            # Lock the gate first, as `Gates.revise` does, to avoid a deadlock.
            await session.fetch_batch("gates.lock", columns={"target": [number]})
            before = await self._lock(session, name)
            rows = await session.fetch("schedules.now", namespace=self._namespace)
            after = decide(before, rows[0][0])
            if after == before:
                return
            statement = "endpoints.create" if before is None else "endpoints.change"
            if before is not None and before.gate != after.gate:
                await _write_gate(session, number, after.gate)
            await session.fetch(
                statement,
                "any",
                namespace=self._namespace,
                name=name,
                target=number,
                **_columns(after),
            )
            await note(session, self._namespace, actor, f"endpoint.{action}", name, detail)

    async def _lock(self, session: Session, name: str) -> StoredEndpoint | None:
        await session.fetch("endpoints.lock", namespace=self._namespace, name=name)
        return await self._find(session, name)

    async def remove(
        self, name: str, actor: str, check: Callable[[StoredEndpoint], None]
    ) -> StoredEndpoint:
        """Remove an endpoint; Conflict if deliveries wait for it or a schedule names it.

        `check` is called with its row locked, and may refuse.
        """
        async with self._database.together() as session:
            found = await self._lock(session, name)
            if found is None:
                raise no_endpoint(name)
            check(found)
            await self._refuse_if_used(session, found)
            await session.fetch("endpoints.remove", namespace=self._namespace, name=name)
            await note(session, self._namespace, actor, "endpoint.removed", name)
        return found

    async def refuse_if_scheduled(self, endpoint: StoredEndpoint) -> None:
        """Raise Conflict if a schedule names the endpoint."""
        await self._refuse_if_scheduled(self._database, endpoint)

    async def _refuse_if_scheduled(self, session: Session, found: StoredEndpoint) -> None:
        rows = await session.fetch("endpoints.schedule_of", target=found.target)
        if rows:
            raise Conflict(
                f"schedule {rows[0][0]!r} sends to endpoint {found.name!r}; remove or change it "
                "first, or pause the endpoint"
            )

    async def _refuse_if_used(self, session: Session, found: StoredEndpoint) -> None:
        await self._refuse_if_scheduled(session, found)
        waiting = sum((await _count(session, [found.target]))[found.target])
        if waiting:
            raise Conflict(
                f"{waiting} deliveries wait for endpoint {found.name!r}; pause it instead, "
                "or remove it with its waiting deliveries cancelled (--cancel-waiting)"
            )

    async def waiting(self, targets: Collection[int]) -> dict[int, tuple[int, int]]:
        """How many deliveries of each target wait and are under way, counted up to a million."""
        return await _count(self._database, targets)

    async def cancel_waiting(self, target: int, limit: int) -> int:
        """Cancel one batch of waiting deliveries that no worker holds; returns how many."""
        rows = await self._database.fetch("endpoints.cancel_waiting", target=target, limit=limit)
        return len(rows) or await self._cancel_heads(target, limit)

    async def _cancel_heads(self, target: int, limit: int) -> int:
        """Cancel heads of streams; the next in the stream may have another target."""
        rows = await self._database.fetch("endpoints.waiting_heads", target=target, limit=limit)
        cancelled = 0
        for (id,) in rows:
            with contextlib.suppress(Conflict):
                cancelled += await self._members.cancel(id)
        return cancelled


async def _count(session: Session, targets: Collection[int]) -> dict[int, tuple[int, int]]:
    rows = await session.fetch_named(
        "endpoints.waiting", targets=list(targets), limit=COUNTED_UP_TO
    )
    return {row["target"]: (row["waiting"], row["under_way"]) for row in rows}


async def _write_gate(session: Session, target: int, gate: Gate) -> None:
    columns = {name: [getattr(gate, name)] for name in Gate.__struct_fields__}
    await session.fetch_batch("gates.write", columns={"target": [target], **columns})


def _columns(endpoint: StoredEndpoint) -> dict[str, Any]:
    details = msgspec.structs.asdict(endpoint.details)
    del details["limits"]
    return details | {
        **key_columns(endpoint.details.limits),
        "headers": msgspec.json.encode(endpoint.details.headers).decode(),
        "secrets": msgspec.json.encode(endpoint.secrets).decode(),
        "state": endpoint.state.value,
        "state_reason": endpoint.state_reason,
        "state_at": endpoint.state_at,
    }


_secrets = msgspec.json.Decoder(tuple[Sealed, ...])


def endpoint_of(found: Mapping[str, Any]) -> StoredEndpoint:
    """An endpoint from its row, with its gate."""
    row = dict(found)
    details = {name: row[name] for name in Details.__struct_fields__ if name in row}
    details["headers"] = msgspec.json.decode(row["headers"])
    details["limits"] = per_key_of(row)
    return StoredEndpoint(
        name=row["name"],
        target=row["target"],
        details=Details(**details),
        state=EndpointState(row["state"]),
        state_reason=row["state_reason"],
        state_at=row["state_at"],
        created_at=row["created_at"],
        version=row["version"],
        secrets=_secrets.decode(row["secrets"]),
        gate=gate_of(*(row[name] for name in Gate.__struct_fields__)),
    )
