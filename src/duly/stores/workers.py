"""Worker processes and their leases."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from duly.domain.deliveries.identifiers import token
from duly.errors import NotFound
from duly.failpoints import hit
from duly.ports import EVERY
from duly.records.worker import Worker
from duly.stores import unique_keys
from duly.stores.access.audit import note
from duly.stores.database import Database
from duly.version import __version__

CAME_BACK = "its worker counted as dead, and came back"


class Workers:
    """The workers of one namespace; `served` are the namespaces that a new worker serves."""

    def __init__(self, database: Database, namespace: str, served: Sequence[str] | None) -> None:
        self._database = database
        self._namespace = namespace
        self._served = [EVERY] if served is None else list(served)

    async def register(
        self,
        name: str,
        lease: float,
        concurrency: int,
        handlers: Sequence[str],
        schedules: Sequence[str] = (),
        generation: str | None = None,
    ) -> int:
        """Write a new worker row and return its number, which is never reused.

        `schedules` are those that its code declares.
        """
        rows = await self._database.fetch(
            "workers.register",
            "any",
            namespace=self._namespace,
            name=name,
            version=__version__,
            handlers=msgspec.json.encode(sorted(handlers)).decode(),
            schedules=msgspec.json.encode(sorted(schedules)).decode(),
            concurrency=concurrency,
            lease=lease,
            namespaces=msgspec.json.encode(self._served).decode(),
            generation=generation,
        )
        return int(rows[0][0])

    async def beat(self, worker: int) -> bool:
        """Renew the worker's lease; False if it was declared dead."""
        await hit("heartbeat.before")
        rows = await self._database.fetch("workers.beat", "any", worker=worker)
        await hit("heartbeat.after")
        return bool(rows)

    async def is_draining(self, worker: int) -> bool:
        """Whether the worker was asked to start no more attempts."""
        rows = await self._database.fetch("workers.is_draining", "any", worker=worker)
        return bool(rows and rows[0][0])

    async def drain(self, worker: int, actor: str, *, draining: bool) -> Worker:
        """Ask a live worker to start no more attempts, or to resume; NotFound if there is none."""
        async with self._database.together() as session:
            rows = await session.fetch(
                "workers.drain", worker=worker, namespace=self._namespace, draining=draining
            )
            if not rows:
                raise NotFound("living worker", str(worker), "duly workers shows all workers")
            action = "worker.drained" if draining else "worker.resumed"
            await note(session, self._namespace, actor, action, str(worker))
        (drained,) = await self._listed(1, worker)
        return drained

    async def reserve_suspects(self, worker: int) -> bool:
        """Reserve the worker to run a suspect alone.

        False if another worker that shares a namespace with it is reserved already.
        """
        async with self._database.together() as session:
            await session.fetch("workers.await_aside")
            return bool(await session.fetch("workers.reserve_suspects", worker=worker))

    async def release_suspects(self, worker: int) -> None:
        """End the reservation of `reserve_suspects`."""
        await self._database.fetch("workers.release_suspects", "any", worker=worker)

    async def declare_dead(
        self, *, survivor: int | None = None, worker: int | None = None
    ) -> list[int]:
        """Declare dead all workers with an expired lease except `worker`; returns their numbers.

        With `survivor`, declare dead all workers except that one.
        """
        rows = await self._database.fetch(
            "workers.declare_dead", "any", survivor=survivor, worker=worker
        )
        return [int(row[0]) for row in rows]

    async def finish_dead(self) -> None:
        """Mark dead workers that hold nothing any more as reclaimed."""
        await self._database.fetch("workers.finish_dead", "any")

    async def undo_crashes(self, worker: int, suspect_after: int) -> int:
        """Undo the crashes that were counted for a worker that is alive; returns how many.

        Atomic, and safe to repeat: the history then records them as released.
        """
        first = token(worker, 0)
        async with self._database.together() as session:
            held = await session.fetch(
                "unique.held_under", first=first, last=token(worker + 1, 0) - 1
            )
            await session.fetch("workers.doubted", worker=worker)
            rows = await session.fetch(
                "workers.undo_crashes", worker=worker, suspect_after=suspect_after, error=CAME_BACK
            )
            await unique_keys.tidy_or_note(session, {(row[0], row[1]) for row in held})
        return len(rows)

    async def end(self, worker: int) -> None:
        """Record that the worker stopped by itself."""
        await self._database.fetch("workers.end", "any", worker=worker)

    async def all(self, limit: int = 100) -> list[Worker]:
        """Workers, live ones first."""
        return await self._listed(limit)

    async def _listed(self, limit: int, worker: int | None = None) -> list[Worker]:
        rows = await self._database.fetch_named(
            "workers.all", namespace=self._namespace, worker=worker, limit=limit
        )
        return [
            Worker(
                **dict(row)
                | {
                    "handlers": msgspec.json.decode(row["handlers"]),
                    "namespaces": msgspec.json.decode(row["namespaces"]),
                    "alive": bool(row["alive"]),
                }
            )
            for row in rows
        ]
