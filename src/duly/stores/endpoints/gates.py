"""The gates of targets: read and written under their lock; nothing is decided here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from duly.domain.endpoints.gates import Gate, TargetLimits
from duly.ports import GateChange, SeenGate
from duly.stores.access.audit import note
from duly.stores.database import Database, Session

Decide = Callable[[SeenGate, datetime], GateChange]


class Gates:
    """The gates of all namespaces, by the numbers of their targets."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def revise(
        self, worker: int, targets: Collection[int], decide: Decide
    ) -> dict[int, tuple[SeenGate, GateChange]]:
        """Change each gate with `decide`; workers that change the same gate wait for each other."""
        ordered = sorted(targets)
        async with self._database.together() as session:
            await session.fetch_batch("gates.lock", columns={"target": ordered})
            rows = await session.fetch("gates.seen", worker=worker, targets=ordered)
            changes = {}
            for row in rows:
                seen, now = _seen(row)
                changes[seen.target] = (seen, decide(seen, now))
            await self._write(session, worker, changes)
        return changes

    async def _write(
        self, session: Session, worker: int, changes: Mapping[int, tuple[SeenGate, GateChange]]
    ) -> None:
        changed = {
            target: change.gate
            for target, (seen, change) in changes.items()
            if change.gate != seen.gate
        }
        if changed:
            await session.fetch_batch("gates.write", columns=_columns(changed))
        counted = {
            target: change.in_flight
            for target, (_, change) in changes.items()
            if change.in_flight is not None
        }
        if counted:
            columns = {"target": list(counted), "many": list(counted.values())}
            await session.fetch_batch("gates.count", columns=columns, worker=worker)
        for target, (_, change) in changes.items():
            if change.disable is not None:
                await self._disable(session, target, change.disable)

    async def _disable(self, session: Session, target: int, reason: str) -> None:
        rows = await session.fetch("gates.disable", target=target, reason=reason)
        for namespace, name in rows:
            await note(session, namespace, "duly", "endpoint.disabled", name, {"reason": reason})


def _seen(row: Any) -> tuple[SeenGate, datetime]:
    target, name, state, rate, in_flight, *gate, elsewhere, seen_at = row
    seen = SeenGate(target, name, state, TargetLimits(rate, in_flight), gate_of(*gate), elsewhere)
    return seen, seen_at


def gate_of(
    failures: int | None,
    first_failed_at: datetime | None,
    opened_at: datetime | None,
    probe_at: datetime | None,
    probing: int | bool | None,
    probes: int | None,
    paced_at: datetime | None,
) -> Gate:
    """A gate from its columns; all are null for a target that has no gate row."""
    return Gate(
        failures=failures or 0,
        first_failed_at=first_failed_at,
        opened_at=opened_at,
        probe_at=probe_at,
        probing=bool(probing),
        probes=probes or 0,
        paced_at=paced_at,
    )


def _columns(changed: Mapping[int, Gate]) -> dict[str, list[Any]]:
    gates = list(changed.values())
    names = Gate.__struct_fields__
    columns = {name: [getattr(gate, name) for gate in gates] for name in names}
    return {"target": list(changed), **columns}
