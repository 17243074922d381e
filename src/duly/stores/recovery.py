"""Dead letters that recover by policies, and by generations of a deployment.

Each batch is one transaction. It begins with the namespace's row of `recovery`, which one worker
at a time can lock; another one does nothing then. A dead letter is retried only while it is
`recovering`, which a retry ends: so each try of a policy happens once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import groupby
from typing import Any, TypeVar

import msgspec

from duly.domain.recovery import DeadLetter, Decision, pace
from duly.failpoints import hit
from duly.ports import Cause, RecoveryWork
from duly.records.recovery import AfterTries, Disposition, Generation, RecoveryPolicy
from duly.stores.access.audit import note
from duly.stores.database import Database, Row, Session
from duly.stores.dead_letters import dispose, give_up
from duly.stores.streams.members import Members

BY_POLICY = "recovery"
LEFT = "left"
MOST_GENERATIONS = 100
_policies: msgspec.json.Decoder[list[RecoveryPolicy]] = msgspec.json.Decoder(list[RecoveryPolicy])


class Recovery:
    """The recovery of the dead letters of one namespace."""

    def __init__(self, database: Database, namespace: str, members: Members) -> None:
        self._database = database
        self._namespace = namespace
        self._members = members

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
        async with self._alone() as (session, row):
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
        """Write decisions, unless other policies have been applied meanwhile; returns how many."""
        async with self._alone("decide") as (session, row):
            if row is None or row[0] != digest:
                return 0
            kept = [each for each in decisions if each.note is None]
            done = await self._write(session, kept)
            for each in decisions:
                if each.note is not None:
                    done += await self._end(session, each)
            return done

    async def _write(self, session: Session, decisions: Sequence[Decision]) -> int:
        if not decisions:
            return 0
        rows = await session.fetch_batch(
            "recovery.decide",
            columns={
                "id": [each.letter.id for each in decisions],
                "disposition": [each.disposition or LEFT for each in decisions],
                "revive_at": [each.revive_at for each in decisions],
                "dead_at": [each.letter.dead_at for each in decisions],
            },
        )
        return len(rows)

    async def _end(self, session: Session, decision: Decision) -> int:
        """Hold or give up a dead letter whose tries are used up."""
        ids, cause = [decision.letter.id], Cause(BY_POLICY, decision.note)
        if decision.disposition is Disposition.GIVEN_UP:
            changed = await give_up(session, self._namespace, self._members, ids, cause)
        else:
            changed = await dispose(session, self._namespace, ids, Disposition.HELD, cause)
        return len(changed)

    async def revive(self, rate: float, batch: int) -> int:
        """Retry those whose cool-down is over, as many as the rate allows; returns how many.

        Of each stream the first are taken.
        """
        done = 0
        async with self._alone("revive") as (session, row):
            if row is None:
                return 0
            allowed = pace(row[1], row[2], rate, batch)
            due = await session.fetch(
                "recovery.due", namespace=self._namespace, limit=allowed.allowed
            )
            for stream, group in _by_stream(due, lambda row: row[1]):
                ids = [row[0] for row in group]
                if stream is None:
                    taken = await session.fetch("recovery.take", ids=ids)
                else:
                    await self._members.lock(session, stream)
                    taken = await session.fetch(
                        "recovery.take_line",
                        namespace=self._namespace,
                        stream=stream,
                        limit=len(ids),
                    )
                counts = {row[0]: row[1] + 1 for row in taken}
                done += await self._raise(session, stream, counts, Cause(BY_POLICY))
            if done:
                await self._pace(session, allowed.after(done, rate))
        return done

    async def _pace(self, session: Session, paced_at: datetime) -> None:
        await session.fetch("recovery.pace", namespace=self._namespace, paced_at=paced_at)

    async def _raise(
        self,
        session: Session,
        stream: str | None,
        counts: dict[str, int],
        cause: Cause,
        generation: str | None = None,
    ) -> int:
        """Retry dead letters outside of streams or of one, given with their new revivals."""
        ids = list(counts)
        if stream is not None:
            await self._members.bring_back(session, ids, True, cause)
        elif ids:
            await session.fetch(
                "dead_letters.retry",
                ids=ids,
                namespace=self._namespace,
                reset=True,
                spread=0.0,
                **cause.parameters,
            )
        if ids:
            await session.fetch_batch(
                "recovery.revived",
                columns={"id": ids, "revivals": list(counts.values())},
                generation=generation,
            )
        return len(ids)

    async def begin_generation(
        self, name: str, *, with_held: bool, actor: str | None = None
    ) -> Generation:
        """Note a generation, if it is not known; begin it again if an actor demands it."""
        async with self._database.together() as session:
            await session.fetch(
                "recovery.begin_generation",
                namespace=self._namespace,
                name=name,
                with_held=with_held,
                demanded=actor is not None,
            )
            if actor is not None:
                detail = {"with_held": with_held}
                await self._audit(session, actor, "generation.replayed", name, detail)
        found = await self.generation(name)
        assert found is not None
        return found

    async def generation(self, name: str) -> Generation | None:
        """One generation; None if it is not known."""
        found = await self._generations(name, 1)
        return found[0][0] if found else None

    async def generations(self, limit: int) -> list[Generation]:
        """The generations, the latest first."""
        return [each for each, _ in await self._generations(None, limit)]

    async def open_generations(self, own: str | None) -> list[tuple[Generation, bool]]:
        """Those that are not done and demanded or this worker's own, and whether demanded."""
        found = await self._generations(None, MOST_GENERATIONS)
        return [
            (each, demanded)
            for each, demanded in found
            if each.done_at is None and (demanded or each.name == own)
        ]

    async def _generations(self, name: str | None, limit: int) -> list[tuple[Generation, bool]]:
        rows = await self._database.fetch_named(
            "recovery.generations", namespace=self._namespace, name=name, limit=limit
        )
        return [_generation(dict(row)) for row in rows]

    async def elsewhere(self, generation: str) -> set[str]:
        """The handlers of live workers of other generations."""
        rows = await self._database.fetch("recovery.elsewhere", generation=generation)
        return {name for row in rows for name in msgspec.json.decode(row[0])}

    async def untried(
        self,
        generation: Generation,
        disposition: Disposition,
        waiting: Collection[str],
        limit: int,
    ) -> list[DeadLetter]:
        """Dead letters from before the generation that it has not tried; of a stream the first."""
        wanted = {
            "namespace": self._namespace,
            "disposition": disposition,
            "first_at": generation.first_at,
            "name": generation.name,
            "waiting": sorted(waiting),
        }
        rows = await self._database.fetch("recovery.untried", **wanted, limit=limit)
        found = []
        for stream, group in _by_stream(rows, lambda row: row[8]):
            letters: Sequence[Row] = list(group)
            if stream is not None:
                letters = await self._database.fetch(
                    "recovery.untried_line", **wanted, stream=stream, limit=len(letters)
                )
            found += [DeadLetter(*row) for row in letters]
        return found

    async def untried_count(
        self, generation: str, first_at: datetime | None, disposition: Disposition
    ) -> int:
        """How many of these there are; up to now without `first_at`."""
        rows = await self._database.fetch(
            "recovery.untried_count",
            namespace=self._namespace,
            disposition=disposition,
            first_at=first_at,
            name=generation,
        )
        return int(rows[0][0])

    async def revive_untried(
        self, generation: Generation, letters: Sequence[DeadLetter], rate: float, batch: int
    ) -> int:
        """Retry some of these, as many as the rate allows, each once; returns how many."""
        done = 0
        async with self._alone("revive") as (session, row):
            if row is None:
                return 0
            allowed = pace(row[1], row[2], rate, batch)
            chosen, cause = letters[: allowed.allowed], Cause("generation", generation.name)
            for stream, group in _by_stream(chosen, lambda each: each.stream):
                if stream is not None:
                    await self._members.lock(session, stream)
                taken = await session.fetch(
                    "recovery.take_untried", ids=[each.id for each in group], name=generation.name
                )
                counts = {row[0]: row[1] for row in taken}
                done += await self._raise(session, stream, counts, cause, generation.name)
            if done:
                await self._pace(session, allowed.after(done, rate))
                await session.fetch(
                    "recovery.count_tried",
                    namespace=self._namespace,
                    name=generation.name,
                    tried=done,
                )
        return done

    async def skip(self, generation: str, ids: Sequence[str]) -> None:
        """Note that a generation does not try these."""
        await self._database.fetch_batch(
            "recovery.skip", columns={"id": list(ids)}, name=generation
        )

    async def end_generation(self, name: str) -> None:
        """Note that all have had their try."""
        await self._database.fetch("recovery.end_generation", namespace=self._namespace, name=name)

    @asynccontextmanager
    async def _alone(self, doing: str = "decide") -> AsyncIterator[tuple[Session, Row | None]]:
        """A transaction, with the namespace's row; None if another worker has locked it."""
        await self._database.fetch("recovery.open", namespace=self._namespace)
        await hit(f"{doing}.before")
        async with self._database.together() as session:
            rows = await session.fetch("recovery.lock", namespace=self._namespace)
            yield session, rows[0] if rows else None
            await hit(f"{doing}.middle")
        await hit(f"{doing}.after")


Item = TypeVar("Item")


def _by_stream(
    items: Iterable[Item], stream_of: Callable[[Item], str | None]
) -> Iterator[tuple[str | None, list[Item]]]:
    """The items of each stream, and those without one."""
    for _, group in groupby(sorted(items, key=lambda each: stream_of(each) or ""), stream_of):
        found = list(group)
        yield stream_of(found[0]), found


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


def _generation(row: dict[str, Any]) -> tuple[Generation, bool]:
    demanded = bool(row.pop("demanded"))
    return Generation(**row | {"with_held": bool(row["with_held"])}), demanded
