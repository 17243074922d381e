"""Workers: listed, drained and resumed."""

from __future__ import annotations

from collections.abc import Sequence

from duly.domain import checks
from duly.errors import InvalidInput
from duly.ports import Store
from duly.records.worker import Worker

MOST_WORKERS = 2**31 - 1


class Workers:
    """The workers of one namespace; `actor` is named in the audit trail."""

    def __init__(self, store: Store, actor: str = "python") -> None:
        self._store = store
        self.actor = actor

    async def list(self, *, limit: int = 100) -> Sequence[Worker]:
        """Workers, live ones first."""
        return await self._store.workers.all(checks.checked_limit(limit))

    async def drain(self, worker: int) -> Worker:
        """Stop a worker from starting deliveries, within a heartbeat; those under way finish.

        The process keeps running. NotFound if it is not alive.
        """
        return await self._store.workers.drain(_checked(worker), self.actor, draining=True)

    async def resume(self, worker: int) -> Worker:
        """Let a drained worker start deliveries again."""
        return await self._store.workers.drain(_checked(worker), self.actor, draining=False)


def _checked(worker: object) -> int:
    whole = isinstance(worker, int) and not isinstance(worker, bool)
    if not whole or not 1 <= worker <= MOST_WORKERS:  # type: ignore[operator]
        raise InvalidInput("worker", f"{worker!r} is not the number of a worker")
    return worker  # type: ignore[return-value]
