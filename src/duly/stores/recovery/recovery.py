"""Dead letters that recover by policies.

A dead letter is retried only while it is `recovering`, which a retry ends: so each try of a policy
happens once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from duly.domain.recovery import DeadLetter, Decision, pace
from duly.ports import Cause, RecoveryWork
from duly.records.recovery import AfterTries, Disposition, RecoveryPolicy
from duly.stores.access.audit import note
from duly.stores.database import Database, Session
from duly.stores.dead_letters import dispose, give_up
from duly.stores.recovery.sweeps import Sweeps, by_stream

BY_POLICY = "recovery"
LEFT = "left"
_policies: msgspec.json.Decoder[list[RecoveryPolicy]] = msgspec.json.Decoder(list[RecoveryPolicy])


class Recovery:
    """The recovery of the dead letters of one namespace."""

    def __init__(self, database: Database, namespace: str, sweeps: Sweeps) -> None:
        self._database = database
        self._namespace = namespace
        self._sweeps = sweeps

    async def survey(
        self, served: Sequence[str] | None, generation: str | None
    ) -> list[RecoveryWork]:
        """What there is to do in the served namespaces that have targets."""
        given = None if served is None else list(served)
        rows = await self._database.fetch_named(
            "recovery.survey", served=given, generation=generation
        )
        return [_work(dict(row)) for row in rows]

    async def policies(self) -> list[RecoveryPolicy]:
        """The stored policies."""
        rows = await self._database.fetch("recovery.policies", namespace=self._namespace)
        return [_policy(*row) for row in rows]

    async def set_policy(self, policy: RecoveryPolicy, actor: str) -> None:
        """Store a policy, in place of one for the same reason and target."""
        async with self._database.together() as session:
            await session.fetch(
                "recovery.set_policy",
                namespace=self._namespace,
                target=policy.target or "",
                reason=policy.reason,
                tries=policy.tries,
                cool_down=policy.after,
                ending=policy.then,
            )
            detail = msgspec.to_builtins(policy)
            await self._audit(session, actor, "recovery_policy.set", policy.reason, detail)

    async def remove_policy(self, reason: str, target: str | None, actor: str) -> bool:
        """Remove a stored policy; False if there is none."""
        async with self._database.together() as session:
            rows = await session.fetch(
                "recovery.remove_policy",
                namespace=self._namespace,
                target=target or "",
                reason=reason,
            )
            if rows:
                detail = {"target": target}
                await self._audit(session, actor, "recovery_policy.removed", reason, detail)
        return bool(rows)

    async def _audit(
        self, session: Session, actor: str, action: str, subject: str, detail: Any
    ) -> None:
        await note(session, self._namespace, actor, action, subject, detail)

    async def forget(self, digest: str, batch: int) -> bool:
        """Let these policies be applied to a batch of dead letters again; False at the end."""
        async with self._sweeps.alone() as (session, row):
            if row is None:
                return True
            rows = await session.fetch("recovery.forget", namespace=self._namespace, limit=batch)
            more = bool(rows[0][0])
            if not more:
                await session.fetch("recovery.applied", namespace=self._namespace, digest=digest)
            return more

    async def undecided_targets(self, limit: int) -> dict[int, str]:
        """Targets with dead letters to which policies must be applied, by number."""
        rows = await self._database.fetch(
            "recovery.undecided_targets", namespace=self._namespace, limit=limit
        )
        return {row[0]: row[1] for row in rows}

    async def undecided(self, target: int, name: str, limit: int) -> list[DeadLetter]:
        """Some of these dead letters of a target, the oldest first."""
        rows = await self._database.fetch(
            "recovery.undecided", namespace=self._namespace, target=target, name=name, limit=limit
        )
        return [DeadLetter(*row) for row in rows]

    async def decide(self, digest: str, decisions: Sequence[Decision]) -> int:
        """Write decisions, unless other policies have been applied meanwhile.

        Returns how many were held or given up.
        """
        async with self._sweeps.alone("decide") as (session, row):
            if row is None or row[0] != digest:
                return 0
            # Those that lock streams first: streams are locked before deliveries, in order.
            ended = 0
            for each in sorted(decisions, key=_lock_order):
                if each.note is not None:
                    ended += await self._end(session, each)
            await self._write(session, [each for each in decisions if each.note is None])
            return ended

    async def _write(self, session: Session, decisions: Sequence[Decision]) -> None:
        if not decisions:
            return
        await session.fetch_batch(
            "recovery.decide",
            columns={
                "id": [each.letter.id for each in decisions],
                "disposition": [each.disposition or LEFT for each in decisions],
                "revive_at": [each.revive_at for each in decisions],
                "dead_at": [each.letter.dead_at for each in decisions],
            },
        )

    async def _end(self, session: Session, decision: Decision) -> int:
        """Hold or give up a dead letter whose tries are used up."""
        ids, cause = [decision.letter.id], Cause(BY_POLICY, decision.note)
        if decision.disposition is Disposition.GIVEN_UP:
            changed = await give_up(session, self._namespace, self._sweeps.members, ids, cause)
        else:
            changed = await dispose(session, self._namespace, ids, Disposition.HELD, cause)
        return len(changed)

    async def revive(self, rate: float, batch: int) -> int:
        """Retry those whose cool-down is over, as many as the rate allows; returns how many.

        Of each stream the first are taken.
        """
        done = 0
        async with self._sweeps.alone("revive") as (session, row):
            if row is None:
                return 0
            allowed = pace(row[1], row[2], rate, batch)
            due = await session.fetch(
                "recovery.due", namespace=self._namespace, limit=allowed.allowed
            )
            for stream, group in by_stream(due, lambda row: row[1]):
                ids = [row[0] for row in group]
                if stream is None:
                    taken = await session.fetch("recovery.take", ids=ids)
                else:
                    await self._sweeps.members.lock(session, stream)
                    taken = await session.fetch(
                        "recovery.take_line",
                        namespace=self._namespace,
                        stream=stream,
                        limit=len(ids),
                    )
                counts = {row[0]: row[1] + 1 for row in taken}
                done += await self._sweeps.revive(session, stream, counts, Cause(BY_POLICY))
            if done:
                await self._sweeps.pace(session, allowed.after(done, rate))
        return done


def _lock_order(decision: Decision) -> tuple[bool, str]:
    return decision.disposition is not Disposition.GIVEN_UP, decision.letter.stream or ""


def _work(row: dict[str, Any]) -> RecoveryWork:
    flags = {name: bool(row[name]) for name in ("undecided", "has_generation", "knows_own")}
    return RecoveryWork(**row | flags | {"policies": _policies.decode(row["policies"])})


def _policy(
    target: str, reason: str, tries: int, cool_down: float, ending: str | None
) -> RecoveryPolicy:
    return RecoveryPolicy(
        reason=reason,
        target=target or None,
        tries=tries,
        after=cool_down,
        then=None if ending is None else AfterTries(ending),
    )
